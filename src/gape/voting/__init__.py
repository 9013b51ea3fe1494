"""Exact nearest-candidate counts, and who casts the votes."""

from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest, nearest_votes, reference_nearest

__all__ = ["LocalElectorate", "nearest", "nearest_votes", "reference_nearest"]
