"""The selection rules, one module each."""

from gape.selection.bounded_lipschitz import (
    BoundedLipschitz,
    BoundedLipschitzProjection,
    bounded_lipschitz_distance,
    bounded_lipschitz_projection,
)
from gape.selection.flow.objective import flow_cost
from gape.selection.kmedoids import KMedoids, k_medoids
from gape.selection.local_search import Gape, LocalSearchResult, local_search
from gape.selection.ranking import Ranking, ranking
from gape.selection.reference import improving_swap, reference_flow_cost, reference_local_search
from gape.selection.remembering import Remembering, believed_votes
from gape.selection.subsampling import Subsampling, subsampling

__all__ = [
    "BoundedLipschitz",
    "BoundedLipschitzProjection",
    "Gape",
    "KMedoids",
    "LocalSearchResult",
    "Ranking",
    "Remembering",
    "Subsampling",
    "believed_votes",
    "bounded_lipschitz_distance",
    "bounded_lipschitz_projection",
    "flow_cost",
    "improving_swap",
    "k_medoids",
    "local_search",
    "ranking",
    "reference_flow_cost",
    "reference_local_search",
    "subsampling",
]
