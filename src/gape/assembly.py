"""From settings and private records to the parts of a run."""

import glob
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from gape.advice import samples_for, suitable_votes, usual_delta
from gape.cluster import RayElectorate, TextShard, in_parts, ray_cluster
from gape.cluster.session import cluster_cores
from gape.data import Schema, load_rows
from gape.data.records import choose_columns, open_table
from gape.embedders.privacy import require_private_embedding
from gape.embedders.rows import RowEmbedder
from gape.errors import InputError, PrivacyError
from gape.labels import LabelledEmbedder, labelled
from gape.plan import Plan
from gape.privacy.accounting import Neighbours
from gape.private import Private, TextElectorate, open_private, shares_texts, units_of
from gape.prompts import load
from gape.protocols import Embedder
from gape.rules import varies_start, votes_suit_noise
from gape.settings import EMBEDDERS, GENERATORS, PRIVATE_KMEANS, ROWS, START, Settings
from gape.types import Points, Samples
from gape.voting.store import VectorFolder, is_vector_folder
from gape.voting.streamed import StreamedElectorate
from gape.writers import NO_MODEL, kind_of, optional_part, public_texts

# Scales and copies of each way to vary a text: seven variations each, because they mattered more than anything else. Of
# resampling, three are new texts after the sample, which can survive beside it; a new beginning and a new end of it can
# survive beside each other (experiments/varied_text). A scale of a corpus is an exponent: of 10,000 texts, the 6 to
# 1,600 nearest.
VARIATIONS: dict[str, tuple[tuple[float, ...], int]] = {
    "resample": ((0.6, 0.6, 0.6, 0.6, 0.9, 0.9, 0.9), 1),
    "rephrase": ((1.0,), 7),
    "fill": ((0.5,), 7),
    "corpus": ((0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), 1),
    ROWS: ((0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6), 1),  # the share of the cells
}


@contextmanager
def engaged(settings: Settings, source: object, connected: Callable[[], None]) -> Iterator[Private]:
    """Give the private data as the engine has it: opened here, or read and embedded by the workers of a cluster.

    `connected` is called when the cluster is there and workers are about to begin, which takes its time.
    """
    if not settings.on_ray:
        yield open_private(settings, source)
        return
    if source is not None or not settings.data:
        raise InputError("workers read the data themselves, and what is in memory they cannot; name a file they see")
    if is_vector_folder(settings.data):
        raise InputError(f"{settings.data} holds vectors, which vote from this machine's disk; use engine local for it")
    _refuse_unknown(settings)  # before workers are started
    address = settings.engine.partition(":")[2] or None
    with ray_cluster(address, cores=settings.workers):
        connected()
        with ray_electorate(settings) as electorate:
            yield electorate


def ray_electorate(settings: Settings) -> RayElectorate:
    """Have the workers of a cluster read the file of the settings, a part each, as one process would read all of it."""
    settings = settings.anchored()  # workers are in another folder
    shard = TextShard(
        glob.escape(settings.data),
        partial(make_embedder, settings),
        settings.text,
        settings.label,
        settings.user,
        settings.labels,
    )
    return RayElectorate(in_parts(shard, workers_of(settings)))


def workers_of(settings: Settings) -> int:
    """How many workers of the cluster that this process is connected to do the work."""
    return settings.workers or cluster_cores()


def resolved(settings: Settings, private: Private) -> Settings:
    """Fill in what follows from other settings and from public numbers: the settings as they will be used."""
    if isinstance(private, VectorFolder):
        settings = _of_folder(settings, private)
    _refuse_unknown(settings)
    if settings.neighbours == "add_remove":
        _refuse_what_counts(settings)
    variation, scales, copies = variations_of(settings)
    units = units_of(private)
    delta = usual_delta(units) if settings.delta is None else settings.delta
    samples = settings.samples or samples_for(
        units,
        _known(settings.epsilon),
        delta,
        settings.rounds,
        len(scales) * copies + int(settings.keep),
        neighbours=cast(Neighbours, settings.neighbours),
        votes_per_unit=(settings.votes_per_unit or 1) // (settings.votes_per_record or 1) or 1,
    )
    labels = _labels(settings, private)
    vary_start = varies_start(settings)
    start = START[settings.preset] if vary_start else len(scales) * copies + int(settings.keep)
    settings = settings.with_values(
        labels=labels,
        delta=delta,
        samples=samples,
        initial=settings.initial or max(start * samples, len(labels or ())),
        vary_start=vary_start,
        variation=variation,
        scales=scales,
        copies=copies,
    )
    if labels is not None and _known(settings.initial) < len(labels):
        said = f"initial must be at least the number of labels, {len(labels)}, for each begins with a text"
        raise InputError(f"{said}, got {settings.initial}")
    votes = settings.votes_per_record or _votes_per_record(settings, units)
    return settings.with_values(votes_per_record=votes, votes_per_unit=settings.votes_per_unit or votes)


def _refuse_what_counts(settings: Settings) -> None:
    """Refuse what would follow from the number of records where that is what neighbouring data differ in."""
    for name, example in (("delta", "1e-6"), ("samples", "500")):
        if getattr(settings, name) is None:
            raise InputError(
                f"under neighbours add_remove the number of records is private, and {name} would follow from it; give "
                f"{name}, {example} for instance, or use neighbours replace"
            )
    if settings.selector == "bounded-lipschitz":
        raise InputError(
            "the selector bounded-lipschitz uses the number of records, which is private under neighbours add_remove; "
            "use neighbours replace, or another selector"
        )


def _votes_per_record(settings: Settings, units: int) -> int:
    if not votes_suit_noise(settings) or settings.neighbours == "add_remove":
        return 1
    plan = make_plan(settings.with_values(votes_per_record=1, votes_per_unit=1))
    return suitable_votes(plan, units, kinds=len(settings.labels or ("",)))


def make_plan(settings: Settings) -> Plan:
    """Return the plan of resolved settings."""
    return Plan(
        epsilon=_known(settings.epsilon),
        delta=_known(settings.delta),
        rounds=settings.rounds,
        samples=_known(settings.samples),
        scales=_known(settings.scales),
        copies=_known(settings.copies),
        keep=settings.keep,
        initial=_known(settings.initial),
        vary_start=_known(settings.vary_start),
        neighbours=cast(Neighbours, settings.neighbours),
        votes_per_unit=_known(settings.votes_per_unit),
        votes_per_record=_known(settings.votes_per_record),
        seed=settings.seed,
    )


def make_embedder(settings: Settings) -> Embedder:
    """Return the embedder of private texts and candidates alike, for texts without labels and without a cache."""
    kind = kind_of(settings.embedder, EMBEDDERS, "embedder")
    name = settings.embedder.partition(":")[2]
    if kind == ROWS:
        return RowEmbedder(Schema.read(cast(str, settings.schema)))
    if kind == "minilm":
        from gape.embedders.minilm import MiniLM  # noqa: PLC0415  (heavy)

        return MiniLM()
    if kind == "openai":
        from gape.embedders.openai import OpenAIEmbedder  # noqa: PLC0415  (heavy)

        return OpenAIEmbedder(
            model=name,
            base_url=settings.embedder_base_url or settings.base_url,
            key_variable=settings.embedder_key_variable or settings.key_variable,
            key_file=None if settings.embedder_key_variable else settings.key_file,
            concurrency=settings.concurrency,
            timeout=settings.timeout,
            private_text_may_leave=settings.private_text_may_leave,
        )
    return cast(Embedder, optional_part(kind)(name))


def candidate_embedder(settings: Settings, embedder: Embedder) -> Embedder:
    """Return the embedder as candidates meet it, with their labels where there are any."""
    return embedder if settings.labels is None else LabelledEmbedder(embedder, settings.labels)


def require_embedder(private: Private, embedder: Embedder) -> None:
    """Refuse an embedder that may not see the texts, or one that is not that of the vectors."""
    if not isinstance(private, VectorFolder):
        require_private_embedding(embedder)  # workers see to it too, each for its own
        return
    origin = private.manifest.origin
    if (identity := repr(embedder)) != origin.identity:
        raise InputError(
            f"{private.path} was embedded by {origin.embedder}, {origin.identity}, not by {identity}; run with that "
            "embedder, or embed the texts again"
        )


def refuse_shared_corpus(settings: Settings, private: Private, embedder: Callable[[], Embedder]) -> None:
    """Refuse a corpus that holds a private record, wherever it lies: it would be published as it is.

    Who leaves such texts out of a corpus lets it depend on the private data, which no noise makes up for; so the
    remedy is another corpus.
    """
    if settings.corpus_may_share or kind_of(settings.generator, GENERATORS, "generator") != "corpus":
        return
    if shares_texts(private, public_texts(settings), embedder):
        raise PrivacyError(
            f"the corpus {settings.generator.partition(':')[2]} holds at least one private record, and is published as "
            "it is; name one that was made without the private data, or say corpus_may_share if the owner of the data "
            "agrees, as where records are so short that others have written the same"
        )


def make_electorate(
    settings: Settings, private: Private, embedder: Embedder
) -> TextElectorate | StreamedElectorate | RayElectorate:
    """Embed the private texts, once and in memory, if the embedder may see them, or let them vote where they are."""
    require_embedder(private, embedder)
    each = settings.votes_per_record or 1
    votes = settings.votes_per_unit or each, each
    if isinstance(private, RayElectorate):
        private.cast(*votes)
        return private
    if isinstance(private, VectorFolder):
        return StreamedElectorate(
            private, votes_per_unit=votes[0], votes_per_record=each, marks=_marks(settings, private)
        )
    if settings.labels is None or private.labels is None:
        points = embedder.embed(private.texts)
    else:
        points = LabelledEmbedder(embedder, settings.labels).embed(labelled(private.labels, private.texts))
    return TextElectorate(private, points, *votes)


def variations_of(settings: Settings) -> tuple[str | None, tuple[float, ...], int]:
    """How texts are varied, at which scales, and how often at each."""
    kind = kind_of(settings.generator, GENERATORS, "generator")
    variation = settings.variation or {"openai": "rephrase", "corpus": None, ROWS: None}.get(kind, "resample")
    if kind == "corpus":
        _check_corpus(settings)
    if kind == "openai" and variation == "resample":
        raise InputError(
            "variation 'resample' needs a model that goes on from an opening, and a chat service does not; use "
            "'rephrase' or 'fill'"
        )
    scales, copies = VARIATIONS[variation if variation and kind not in NO_MODEL else kind]
    if settings.scales is not None:
        scales, copies = settings.scales, 1
    return variation, scales, settings.copies or copies


def _check_corpus(settings: Settings) -> None:
    """Refuse a corpus that is not there, that is the private data, or whose texts cannot be told."""
    file = settings.generator.partition(":")[2]
    if not Path(file).exists():
        raise InputError(f"there is no corpus {file}; name a file of public texts after corpus:")
    if settings.data and Path(settings.data).exists() and Path(settings.data).samefile(file):
        raise PrivacyError(f"{file} is the private data, and a corpus is published as it is; name one of public texts")
    try:
        if settings.schema is not None:
            load_rows(file, Schema.read(settings.schema))
            return
        choose_columns(open_table(file), settings.corpus_text, None, None)
    except InputError as error:
        raise InputError(f"of the corpus, {str(error).replace('set text to', 'set corpus_text to')}") from None


def _refuse_unknown(settings: Settings) -> None:
    """Refuse what no data could make right: no epsilon, and parts that there are not."""
    if settings.epsilon is None:
        raise InputError("epsilon must be given; 1 is a strong guarantee, 8 a weak one, inf none at all")
    kind_of(settings.embedder, EMBEDDERS, "embedder")
    if settings.schema is not None:
        Schema.read(settings.schema)  # which refuses what is none
    for name in ("max_cost", "max_tokens_total"):
        if getattr(settings, name) is not None and not settings.generator.startswith("openai:"):
            said = f"{name} caps what a service is asked for, and the generator {settings.generator} is none"
            raise InputError(f"{said}; leave it out")
    if settings.prompts is not None:
        load(settings.prompts)  # which refuses what is none
    variations_of(settings)


def _of_folder(settings: Settings, folder: VectorFolder) -> Settings:
    """Join settings with those that the vectors were made by; a run must not read the data in another way.

    The ledger is that of the texts: they have one budget, however they are read.
    """
    origin = folder.manifest.origin
    for name, column in origin.columns.items():
        asked = getattr(settings, name)
        if asked is not None and asked != column:
            had = "without one" if column is None else f"with {column!r}"
            raise InputError(
                f"{folder.path} was embedded {had} as {name}, not {asked!r}; embed the data again for that"
            )
    if settings.separation == PRIVATE_KMEANS:
        raise InputError(
            f"separation {PRIVATE_KMEANS} needs all vectors in memory; give the file of texts, or a number"
        )
    return settings.with_values(user=origin.columns["user"], ledger=settings.ledger or folder.ledger)


def _labels(settings: Settings, private: Private) -> tuple[str, ...] | None:
    if settings.labels is not None or isinstance(private, RayElectorate):
        return settings.labels
    if isinstance(private, VectorFolder):
        found = private.manifest.labels if settings.label is not None else None
    else:
        found = None if private.labels is None else tuple(private.labels.tolist())
    if found is None:
        return None
    if not settings.labels_are_public:
        raise InputError(
            "which labels occur is private too; list those that can occur as labels, or say by labels_are_public that "
            "the ones in the data are no secret"
        )
    return tuple(sorted(set(found)))


def _marks(settings: Settings, folder: VectorFolder) -> Points | None:
    """Return the columns that `LabelledEmbedder` puts behind a text, (labels of the folder, k), and its refusals."""
    occurring = folder.manifest.labels
    if settings.labels is None or occurring is None:
        return None
    largest = _AsLong(folder.manifest.largest_norm)
    return LabelledEmbedder(largest, settings.labels).embed(labelled(occurring, occurring))[:, 1:]


class _AsLong:
    """Stands for vectors on disk: one column, with the largest of their norms."""

    def __init__(self, norm: float) -> None:
        self._norm = norm

    def embed(self, samples: Samples) -> Points:
        return np.full((len(samples), 1), self._norm, dtype=np.float32)


def _known(value: Any) -> Any:
    if value is None:
        raise InputError("these settings are not resolved; pass them through gape.assembly.resolved")
    return value
