"""Votes and texts from other machines: a Ray cluster, or the devices of the owners of the data."""
