"""Votes and texts from other machines: the workers of a Ray cluster, or the devices of the data owners."""
