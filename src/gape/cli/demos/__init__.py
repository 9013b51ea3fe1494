"""Runs to look at first, on data that nobody has to protect, so that their figures may show it."""
