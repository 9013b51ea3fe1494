"""Checks which embedders may see private text."""

from typing import cast

from gape.core.errors import PrivacyError
from gape.core.protocols import Embedder


def require_private_embedding(embedder: Embedder) -> None:
    """Refuse an embedder that would send private text to another machine without its owner's consent.

    Call this before private text is embedded. An embedder that sends text away has the attribute
    `private_text_may_leave`, which is False unless the user sets it. An embedder without it works on this machine.
    """
    if not getattr(embedder, "private_text_may_leave", True):
        raise PrivacyError(
            f"{type(embedder).__name__} would send the private text to another machine, where no noise protects it; "
            "use an embedder on this machine, or pass private_text_may_leave=True if the owner of the data agrees"
        )


def for_public_samples(embedder: Embedder) -> Embedder:
    """Return the fastest form of the embedder for samples of which none is private.

    An embedder whose vectors depend on the other samples in a batch, as on a GPU, embeds private ones one by one, and
    has the method `for_public_samples`, which returns it with larger batches.
    """
    faster = getattr(embedder, "for_public_samples", None)
    return embedder if faster is None else cast(Embedder, faster())
