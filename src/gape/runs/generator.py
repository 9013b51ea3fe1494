"""The generator of a run, from its settings. Nothing private reaches it."""

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from gape._support.fingerprint import dataset_fingerprint
from gape._support.parallel import cores
from gape._support.values import brief
from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Embedder, Generator, TopicGenerator
from gape.generators.corpus import CorpusText
from gape.generators.images.painting import WithPainter
from gape.generators.labels import LabelledGenerator
from gape.generators.prompted import PromptedText
from gape.generators.prompts import Prompts, generic, load, topics_from_model
from gape.generators.resampled import ResampledText
from gape.generators.several import SeveralWriters
from gape.generators.topic_survey import TopicSurvey
from gape.language.embedded import EmbeddedModel
from gape.language.locate import locate
from gape.language.openvino import OpenVinoModel
from gape.language.request import Completion, LanguageModel
from gape.language.spending import Purse
from gape.language.stored import Stored
from gape.language.watched import Watched
from gape.modalities import Columns, Modality
from gape.runs.advice import TOKENS_PER_SECOND_PER_CORE, WritingFigures
from gape.runs.labels import candidate_embedder
from gape.runs.run import describe
from gape.runs.settings import Settings
from gape.runs.spending import make_purse

_TOPICS = (20, 100)  # least and most topics to ask the model for; in between, as many as initial texts

# Parts that need optional packages: module and class.
OPTIONAL = {
    "hf": ("gape.language.transformers", "TransformersModel"),
    "st": ("gape.embedders.sentence_transformers", "SentenceTransformer"),
}


@dataclass(frozen=True)
class Listener:
    """Callbacks for every answer of the model, and for those that were not on disk yet."""

    answered: Callable[[Completion], None]
    asked: Callable[[Completion], None]


def make_model(
    settings: Settings,
    answers: Path,
    waiting: Callable[[int, int], None] | None = None,
    purse: Purse | None = None,
) -> LanguageModel | None:
    """Return the model that writes or draws; None if there is none. `answers` is the file of what the run has used.

    While a batch is under way, `waiting` is told how many of its requests are done. `purse` has the caps that are
    shared with an embedding service.
    """
    if settings.services:
        purse = purse or make_purse(settings, answers)
    writer = _writer(settings, answers, waiting, purse)
    if settings.draws is None:
        return writer
    reached = _reached(settings, purse)
    if settings.painter is not None:
        reached |= {"base_url": settings.painter_base_url or settings.base_url}
        reached |= {"api_version": settings.api_version if settings.painter_base_url is None else None}
    if settings.painter_key_variable is not None:
        reached |= {"key_variable": settings.painter_key_variable, "key_file": None}
    name = settings.draws.partition(":")[2]
    service = settings.records.make_service(name, image_price=settings.image_price, **reached)
    return service if writer is None else WithPainter(writer, service)


def _writer(
    settings: Settings, answers: Path, waiting: Callable[[int, int], None] | None, purse: Purse | None
) -> LanguageModel | None:
    """Return the language model; None if none writes."""
    kind, name = generator_kind(settings), settings.generator.partition(":")[2]
    if not writes(settings):
        return None
    if kind == "embedded":
        return EmbeddedModel(locate(name))
    if kind == "openvino":
        return OpenVinoModel(locate(name))
    if kind == "openai":
        return _service(settings, name, answers, waiting, purse)
    return cast(LanguageModel, optional_part(kind)(name))


def require_votes_may_leave(settings: Settings, votes: str = "") -> None:
    """Refuse a service that would see the outcome of votes without privacy, unless the data owner agrees.

    Its prompts contain the survivors. `votes` describes such votes; by default the settings tell.
    """
    votes = votes or ("votes without noise" if settings.epsilon == math.inf else "")
    if not votes or settings.exact_votes_may_leave or not settings.services:
        return
    raise PrivacyError(
        f"{settings.services[0]} would be asked to vary {settings.records.nouns} chosen by {votes}, which tells the "
        "service about private records; use a model on this machine, or give exact_votes_may_leave if the owner of "
        "the data agrees"
    )


@contextmanager
def remembering(model: LanguageModel | None, answers: Path, listener: Listener) -> Iterator[LanguageModel | None]:
    """Yield the model with its answers stored in the file `answers` and reported to the listener."""
    if model is None:
        yield None
        return
    with closing(Stored(Watched(model, listener.asked), answers)) as stored:
        yield Watched(stored, listener.answered)


def make_prompts(settings: Settings, model: LanguageModel | None, embedder: Embedder | None = None) -> Prompts:
    """Return the prompts. If a domain is given without topics, the model is asked for them.

    With an embedder these topics are checked (`topics_from_model`).
    """
    domain = settings.domain or settings.records.domain
    prompts = load(settings.prompts) if settings.prompts is not None else generic(domain or load("generic").domain)
    if domain is not None:
        prompts = replace(prompts, domain=domain)
    if settings.words is not None:
        prompts = replace(prompts, words=settings.words)
    if settings.bare_prompts:
        return prompts.bare()
    topics = settings.topics
    if topics is None and model is not None and writes(settings) and domain is not None and settings.prompts is None:
        wanted = min(max(settings.initial or 0, _TOPICS[0]), _TOPICS[1])
        rng = np.random.default_rng([settings.seed, *b"topics"])
        topics = topics_from_model(model, domain, wanted, rng, settings.records.text_part(embedder))
    return prompts.with_topics(topics) if topics else prompts


def make_generator(
    settings: Settings,
    model: LanguageModel | None,
    prompts: Prompts,
    embedder: Embedder | None,
    telling: Callable[[Prompts, Mapping[str, str]], Prompts] = Prompts.telling,
) -> Generator:
    """Return the generator, with one part per label if there are labels. A corpus needs the embedder.

    `telling` returns the prompts that tell a label.
    """
    if settings.survey and settings.kind.owns(settings.generator):
        return settings.records.survey_generator()
    records, drawing = settings.records, settings.own_generator
    corpus = None if model is not None or embedder is None or drawing else CorpusText(public_texts(settings), embedder)
    painter = None if settings.painter is None else records.make_generator(settings.painter, model=model)

    def made(records: Modality, prompts: Prompts, label: str | None = None) -> Generator:
        if drawing:
            return records.make_generator(settings.generator, label=label, model=model)
        if corpus is not None:
            own = records.of_label(corpus.texts)
            return corpus if len(own) == len(corpus.texts) else replace(corpus, texts=_PublicTexts(own))
        known = cast(LanguageModel, model)
        way = ResampledText if settings.variation == "resample" else PromptedText
        return records.written(
            way(known, prompts, temperature=settings.temperature, distinct=settings.distinct), painter
        )

    generator: Generator
    if settings.labels is None or (column := settings.label) is None:
        generator = made(records, prompts)
    else:
        told = {label: telling(prompts, {column: label}) for label in settings.labels}
        parts = {label: made(records.having(column, label), own, label) for label, own in told.items()}
        generator = LabelledGenerator(parts, column)
    return generator if not settings.survey else _surveyed(settings, generator, embedder)


def told_in_requests(prompts: Prompts, cells: Mapping[str, str]) -> Prompts:
    """Tell labels as earlier versions did: in each request for a text, before the topic."""
    lines = "".join(f"\n{name}: {value}" for name, value in cells.items())
    return replace(prompts, random=tuple(f"{template}{lines}" for template in prompts.random))


@contextmanager
def whole_generator(
    settings: Settings,
    model: LanguageModel | None,
    answers: Path,
    listener: Listener,
    prompts: Prompts,
    embedder: Embedder | None,
    recorded: str | None,
) -> Iterator[Generator]:
    """Yield the generator, together with those of the further models if there are any.

    `recorded` is the description of the generator that a run began with. A run that an earlier version began is resumed
    with labels told as they were.
    """
    with ExitStack() as stack:
        writers = [(settings, model)]
        for spec in settings.also or ():
            own = settings.with_values(generator=spec, also=None, batch=False)
            writers.append((own, stack.enter_context(remembering(make_model(own, answers), answers, listener))))

        def made(telling: Callable[[Prompts, Mapping[str, str]], Prompts]) -> Generator:
            generators = [make_generator(own, model, prompts, embedder, telling) for own, model in writers]
            return SeveralWriters(tuple(generators)) if len(generators) > 1 else generators[0]

        generator = made(Prompts.telling)
        if settings.labels and writes(settings) and recorded not in {None, describe(generator)}:
            earlier = made(told_in_requests)
            generator = earlier if recorded == describe(earlier) else generator
        yield generator


def _surveyed(settings: Settings, generator: Generator, embedder: Embedder | None) -> Generator:
    """Return the generator that asks for topics first. Without an embedder, nothing can be asked any more."""
    if not isinstance(generator, TopicGenerator) or not len(generator.topics()):
        raise InputError(f"a survey asks for topics, and {brief(settings.generator)} names none; leave the survey out")
    return TopicSurvey(generator, None if embedder is None else candidate_embedder(settings, embedder))


def describe_writer(settings: Settings) -> WritingFigures:
    """Return the numbers that determine time and cost of resolved settings."""
    words = settings.words or settings.records.words or load(settings.prompts or "generic").words
    scales = settings.scales or (1.0,)
    speed = None if settings.also else TOKENS_PER_SECOND_PER_CORE.get(settings.generator)
    return WritingFigures(
        words=words,
        rewritten=sum(scales) / len(scales) if settings.variation == "resample" else 1.0,
        reads_sample=settings.variation == "rephrase",
        model=writes(settings),
        samples_per_second=settings.records.per_second,
        tokens_per_second=None if speed is None else speed * cores(),
        concurrency=settings.concurrency if settings.services and not settings.batch else None,
        draws=settings.draws is not None,
        image_price=settings.image_price,
        prompt_price=settings.prices[0],
        completion_price=settings.prices[1],
        embedding_price=settings.embedding_price,
        embedding_service=settings.embedder.startswith("openai:"),
    )


def writes(settings: Settings) -> bool:
    """Whether a language model writes, rather than a corpus or the modality itself."""
    return generator_kind(settings) != "corpus" and not settings.own_generator


def generator_kind(settings: Settings) -> str:
    """Return the kind of the generator, the part before the colon, if it suits the modality."""
    return kind_of(settings.generator, settings.writers, "generator")


def kind_of(spec: str, known: tuple[str, ...], what: str) -> str:
    """Return the kind of a part, before the colon of its spec, if it is known and installed."""
    kind, colon, name = spec.partition(":")
    for form in known:
        if form.partition(":")[0] == kind and bool(name) == bool(form.partition(":")[2]) == bool(colon):
            if kind in OPTIONAL and importlib.util.find_spec(OPTIONAL[kind][0]) is None:
                raise InputError(f"this version has no {what} {kind}:{name} yet; use {known[0]} or {known[1]}")
            return kind
    raise InputError(f"{what} must be one of {', '.join(known)}, got {spec!r}")


def optional_part(kind: str) -> Callable[[str], Any]:
    """Return the class of an optional part."""
    module, name = OPTIONAL[kind]
    return cast(Callable[[str], Any], getattr(importlib.import_module(module), name))


class _PublicTexts(tuple[str, ...]):
    """The texts of a public corpus. Their repr, which describes a run, is their number and a digest."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{len(self)} texts, {dataset_fingerprint((text.encode() for text in self), b'')[:12]}"


def public_texts(settings: Settings) -> Sequence[str]:
    """Read the records of the corpus; their repr is their number and a digest."""
    path = settings.generator.partition(":")[2]
    with naming_the_corpus():
        return _PublicTexts(settings.records.read_corpus(path, Columns(settings.corpus_text, settings.label)).tolist())


@contextmanager
def naming_the_corpus() -> Iterator[None]:
    """Say in errors that they are about the corpus, and which setting names its column."""
    try:
        yield
    except InputError as error:
        message = str(error).replace("text (--text)", "corpus_text (--corpus-text)")
        raise InputError(f"the corpus cannot be used: {message}") from None


def _service(
    settings: Settings,
    name: str,
    answers: Path,
    waiting: Callable[[int, int], None] | None,
    purse: Purse | None,
) -> LanguageModel:
    """Return a hosted model whose caps hold for the whole run, including what earlier processes have used."""
    from gape.language.batched import BatchedModel  # noqa: PLC0415  (heavy)
    from gape.language.openai import OpenAIModel  # noqa: PLC0415  (heavy)

    batches = answers.with_name(f"{answers.stem}-batches.json")
    make = partial(BatchedModel, path=batches, notice=waiting) if settings.batch else OpenAIModel
    return make(
        model=name,
        prompt_price=settings.prompt_price,
        completion_price=settings.completion_price,
        **_reached(settings, purse),
    )


def _reached(settings: Settings, purse: Purse | None) -> dict[str, Any]:
    """Return how a service is reached and paid, whatever it does."""
    return {
        "base_url": settings.base_url,
        "key_variable": settings.key_variable,
        "key_file": settings.key_file,
        "api_version": settings.api_version,
        "concurrency": settings.concurrency,
        "timeout": settings.timeout,
        "purse": purse,
    }
