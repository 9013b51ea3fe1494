"""Differentially private synthetic data by Private Evolution.

`synthesize` makes synthetic texts from private ones in one call. Underneath, the loop is `evolve` (Algorithm 1), and
`run` adds a ledger and a folder that survives interruption. The guarantee is stated by `PrivacyStatement`, and
docs/guarantees.md says what it covers.
"""

from gape import _silence  # noqa: F401  (first: libraries read its switches when they are imported)

# isort: split
from gape.compare.texts import compare_texts
from gape.data import Records, load_texts
from gape.embedders.cached import Cached
from gape.embedders.identity import IdentityEmbedder
from gape.embedders.minilm import MiniLM
from gape.embedding import embed_texts
from gape.errors import BudgetError, GapeError, InputError, PrivacyError, RunError, ServiceError, SpendingError
from gape.evaluate import evaluate
from gape.evolve import evolve
from gape.expand import expand
from gape.generators.corpus import CorpusText
from gape.generators.prompted import PromptedText
from gape.generators.resampled import ResampledText
from gape.generators.vectors import GaussianGenerator, SnakingPath, StartFromBox, StartFromSet
from gape.language.embedded import EmbeddedModel
from gape.language.stored import Stored
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
from gape.settings import Settings
from gape.state import Proposal, State
from gape.synthesize import SyntheticTexts, resume, run_text, synthesize
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest_votes
from gape.voting.streamed import StreamedElectorate

__version__ = "0.1.0.dev0"

__all__ = [
    "Account",
    "BoundedLipschitz",
    "Budget",
    "BudgetError",
    "Cached",
    "CorpusText",
    "Electorate",
    "EmbeddedModel",
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
    "MiniLM",
    "Plan",
    "PrivacyError",
    "PrivacyStatement",
    "PromptedText",
    "Proposal",
    "Ranking",
    "Records",
    "Release",
    "ResampledText",
    "RunError",
    "SecureNoise",
    "SeededNoise",
    "Selection",
    "Selector",
    "ServiceError",
    "Settings",
    "SnakingPath",
    "SpendingError",
    "StartFromBox",
    "StartFromSet",
    "State",
    "Stored",
    "StreamedElectorate",
    "Subsampling",
    "SyntheticTexts",
    "bounded_lipschitz_distance",
    "bounded_lipschitz_projection",
    "compare_texts",
    "delta_spent",
    "embed_texts",
    "evaluate",
    "evolve",
    "expand",
    "flow_cost",
    "load_texts",
    "local_search",
    "nearest_votes",
    "noise_scale",
    "paper_noise_scale",
    "release_votes",
    "resume",
    "run",
    "run_text",
    "spent",
    "synthesize",
]
