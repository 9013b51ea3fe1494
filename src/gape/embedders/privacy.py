"""Which embedders may see private text."""

from typing import cast

from gape.core.errors import PrivacyError
from gape.core.protocols import Embedder


def require_private_embedding(embedder: Embedder) -> None:
    """Refuse an embedder that would send private text to another machine without its owner's consent.

    To be called before private text is embedded. An embedder that sends text away carries the attribute
    `private_text_may_leave`, False unless its user has said otherwise; one without it works on this machine.
    """
    if not getattr(embedder, "private_text_may_leave", True):
        raise PrivacyError(
            f"{type(embedder).__name__} would send the private text to another machine, which no noise makes up for; "
            "embed on this machine, or pass private_text_may_leave=True if whoever owns the data agrees"
        )


def for_public_texts(embedder: Embedder) -> Embedder:
    """Return the embedder as it is fastest with texts of which none is private.

    One whose vectors depend on what is embedded beside them, as in batches on a GPU, takes private texts one by one,
    and carries the method `for_public_texts`.
    """
    faster = getattr(embedder, "for_public_texts", None)
    return embedder if faster is None else cast(Embedder, faster())
