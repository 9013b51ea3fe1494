"""Differentially private synthetic data by Private Evolution.

The loop is `evolve` (Algorithm 1); `run` adds a ledger and a folder that survives interruption. The guarantee is
stated by `PrivacyStatement`, and docs/guarantees.md says what it covers.
"""

from gape.embedders.identity import IdentityEmbedder
from gape.errors import BudgetError, GapeError, InputError, PrivacyError, RunError
from gape.evolve import evolve
from gape.generators.vectors import GaussianGenerator, SnakingPath, StartFromBox, StartFromSet
from gape.plan import Plan
from gape.privacy.accounting import Release, delta_spent, noise_scale, paper_noise_scale, spent
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SecureNoise, SeededNoise
from gape.privacy.release import release_votes
from gape.privacy.statement import PrivacyStatement
from gape.protocols import Electorate, Embedder, Generator, Selection, Selector
from gape.run import run
from gape.selection.bounded_lipschitz import (
    BoundedLipschitz,
    bounded_lipschitz_distance,
    bounded_lipschitz_projection,
)
from gape.selection.kmedoids import KMedoids
from gape.selection.local_search import Gape, local_search
from gape.selection.objective import flow_cost
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling
from gape.state import Proposal, State
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest_votes

__version__ = "0.1.0.dev0"

__all__ = [
    "Account",
    "BoundedLipschitz",
    "Budget",
    "BudgetError",
    "Electorate",
    "Embedder",
    "Gape",
    "GapeError",
    "GaussianGenerator",
    "Generator",
    "IdentityEmbedder",
    "InputError",
    "KMedoids",
    "Ledger",
    "LocalElectorate",
    "Plan",
    "PrivacyError",
    "PrivacyStatement",
    "Proposal",
    "Ranking",
    "Release",
    "RunError",
    "SecureNoise",
    "SeededNoise",
    "Selection",
    "Selector",
    "SnakingPath",
    "StartFromBox",
    "StartFromSet",
    "State",
    "Subsampling",
    "bounded_lipschitz_distance",
    "bounded_lipschitz_projection",
    "delta_spent",
    "evolve",
    "flow_cost",
    "local_search",
    "nearest_votes",
    "noise_scale",
    "paper_noise_scale",
    "release_votes",
    "run",
    "spent",
]
