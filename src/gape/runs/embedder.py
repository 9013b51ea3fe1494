"""From settings to the embedder by which candidates and private records are compared."""

from typing import cast

from gape.core.protocols import Embedder
from gape.language.spending import Purse
from gape.runs.generator import kind_of, optional_part
from gape.runs.settings import Settings
from gape.runs.spending import EmbeddingTally


def make_embedder(settings: Settings, purse: Purse | None = None, tally: EmbeddingTally | None = None) -> Embedder:
    """Return the embedder of private records and candidates alike, without labels and without a cache.

    If it is a service, it is paid from `purse`, without a cap by default, and counted by `tally`.
    """
    kind = kind_of(settings.embedder, settings.kind.comparers(), "embedder")
    if settings.kind.owns(settings.embedder):
        return settings.records.make_embedder(settings.embedder)
    return settings.records.compared(_text_embedder(settings, kind, purse, tally))


def _text_embedder(settings: Settings, kind: str, purse: Purse | None, tally: EmbeddingTally | None) -> Embedder:
    name = settings.embedder.partition(":")[2]
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
            api_version=settings.api_version if settings.embedder_base_url is None else None,
            concurrency=settings.concurrency,
            timeout=settings.timeout,
            private_text_may_leave=settings.private_text_may_leave,
            prompt_price=settings.embedding_price,
            purse=purse,
            sent=0 if tally is None else tally.times,
            counted=None if tally is None else tally.add,
            begins=None if tally is None else tally.begin,
        )
    return cast(Embedder, optional_part(kind)(name))
