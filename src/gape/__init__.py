"""Differentially private synthetic data by Private Evolution.

`synthesize` makes synthetic texts from private ones in one call. Underneath, the loop is `evolve` (Algorithm 1), and
`run` adds a ledger and a folder that survives interruption. The guarantee is stated by `PrivacyStatement`, and
docs/guarantees.md says what it covers.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from gape._support import silence as _silence  # noqa: F401  (first: libraries read its switches when they are imported)

if TYPE_CHECKING:
    from gape.core.errors import BudgetError, GapeError, InputError, PrivacyError, RunError, ServiceError, SpendingError
    from gape.core.protocols import Electorate, Embedder, Generator, Selection, Selector
    from gape.embedders.cached import Cached
    from gape.embedders.identity import IdentityEmbedder
    from gape.embedders.minilm import MiniLM
    from gape.evaluation.compare.texts import compare_texts
    from gape.evaluation.evaluate import evaluate
    from gape.evolution.evolve import evolve
    from gape.evolution.plan import Plan
    from gape.evolution.state import Proposal, State
    from gape.generators.corpus import CorpusText
    from gape.generators.prompted import PromptedText
    from gape.generators.resampled import ResampledText
    from gape.generators.several import SeveralWriters
    from gape.generators.vectors import GaussianGenerator, SnakingPath, StartFromBox, StartFromSet
    from gape.language.embedded import EmbeddedModel
    from gape.language.openvino import OpenVinoModel
    from gape.language.stored import Stored
    from gape.modalities import Records, load_texts
    from gape.privacy.accounting import Release, delta_spent, noise_scale, paper_noise_scale, spent
    from gape.privacy.ledger import Account, Budget, Ledger
    from gape.privacy.noise import SecureNoise, SeededNoise
    from gape.privacy.release import release_votes
    from gape.privacy.statement import PrivacyStatement
    from gape.runs.embedding import embed_texts
    from gape.runs.expand import expand
    from gape.runs.progress import Progress, RoundFigures
    from gape.runs.run import run
    from gape.runs.settings import Settings
    from gape.runs.synthesize import SyntheticTexts, resume, run_text, synthesize
    from gape.runs.trackers import NotebookProgress, to_mlflow, to_wandb
    from gape.selection.bounded_lipschitz import (
        BoundedLipschitz,
        bounded_lipschitz_distance,
        bounded_lipschitz_projection,
    )
    from gape.selection.flow.objective import flow_cost
    from gape.selection.kmedoids import KMedoids
    from gape.selection.local_search import Gape, local_search
    from gape.selection.ranking import Ranking
    from gape.selection.regions import RegionalRanking
    from gape.selection.remembering import Remembering
    from gape.selection.separation import paper_separation
    from gape.selection.subsampling import Subsampling
    from gape.voting.electorate import LocalElectorate
    from gape.voting.nearest import nearest_votes
    from gape.voting.streamed import StreamedElectorate

__version__ = "0.1.0"

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
    "NotebookProgress",
    "OpenVinoModel",
    "Plan",
    "PrivacyError",
    "PrivacyStatement",
    "Progress",
    "PromptedText",
    "Proposal",
    "Ranking",
    "Records",
    "RegionalRanking",
    "Release",
    "Remembering",
    "ResampledText",
    "RoundFigures",
    "RunError",
    "SecureNoise",
    "SeededNoise",
    "Selection",
    "Selector",
    "ServiceError",
    "Settings",
    "SeveralWriters",
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
    "paper_separation",
    "release_votes",
    "resume",
    "run",
    "run_text",
    "spent",
    "synthesize",
    "to_mlflow",
    "to_wandb",
]

# Public names by the module that has them, which is imported when one of them is first asked for.
_NAMES = {
    "core.errors": (
        "BudgetError",
        "GapeError",
        "InputError",
        "PrivacyError",
        "RunError",
        "ServiceError",
        "SpendingError",
    ),
    "core.protocols": ("Electorate", "Embedder", "Generator", "Selection", "Selector"),
    "embedders.cached": ("Cached",),
    "embedders.identity": ("IdentityEmbedder",),
    "embedders.minilm": ("MiniLM",),
    "evaluation.compare.texts": ("compare_texts",),
    "evaluation.evaluate": ("evaluate",),
    "evolution.evolve": ("evolve",),
    "evolution.plan": ("Plan",),
    "evolution.state": ("Proposal", "State"),
    "generators.corpus": ("CorpusText",),
    "generators.prompted": ("PromptedText",),
    "generators.resampled": ("ResampledText",),
    "generators.several": ("SeveralWriters",),
    "generators.vectors": ("GaussianGenerator", "SnakingPath", "StartFromBox", "StartFromSet"),
    "language.embedded": ("EmbeddedModel",),
    "language.openvino": ("OpenVinoModel",),
    "language.stored": ("Stored",),
    "modalities": ("Records", "load_texts"),
    "privacy.accounting": ("Release", "delta_spent", "noise_scale", "paper_noise_scale", "spent"),
    "privacy.ledger": ("Account", "Budget", "Ledger"),
    "privacy.noise": ("SecureNoise", "SeededNoise"),
    "privacy.release": ("release_votes",),
    "privacy.statement": ("PrivacyStatement",),
    "runs.embedding": ("embed_texts",),
    "runs.expand": ("expand",),
    "runs.progress": ("Progress", "RoundFigures"),
    "runs.run": ("run",),
    "runs.settings": ("Settings",),
    "runs.synthesize": ("SyntheticTexts", "resume", "run_text", "synthesize"),
    "runs.trackers": ("NotebookProgress", "to_mlflow", "to_wandb"),
    "selection.bounded_lipschitz": ("BoundedLipschitz", "bounded_lipschitz_distance", "bounded_lipschitz_projection"),
    "selection.flow.objective": ("flow_cost",),
    "selection.kmedoids": ("KMedoids",),
    "selection.local_search": ("Gape", "local_search"),
    "selection.ranking": ("Ranking",),
    "selection.regions": ("RegionalRanking",),
    "selection.remembering": ("Remembering",),
    "selection.separation": ("paper_separation",),
    "selection.subsampling": ("Subsampling",),
    "voting.electorate": ("LocalElectorate",),
    "voting.nearest": ("nearest_votes",),
    "voting.streamed": ("StreamedElectorate",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gape' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"gape.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
