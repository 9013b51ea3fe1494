"""Exact nearest-candidate counts, and the electorates that cast the votes."""

from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest_votes, reference_nearest

__all__ = ["LocalElectorate", "nearest_votes", "reference_nearest"]
