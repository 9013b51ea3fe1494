"""The caps of a run on what its services are paid, counted over all processes that have worked on it."""

from pathlib import Path

from gape._support.files import read_json, write_json
from gape.core.errors import InputError, RunError, SpendingError
from gape.language.spending import Purse, Tokens
from gape.language.stored import stored_tokens
from gape.runs.folder.layout import Layout
from gape.runs.settings import Settings


class EmbeddingTally:
    """What earlier processes of a run have sent to its embedding service, in a file that tells nothing private.

    Of private texts it counts how often all of them were sent, and not their tokens. Each process sends them again, so
    that its own use tells what the others have used. Of candidates, which are public, it counts the tokens.
    """

    def __init__(self, layout: Layout) -> None:
        """Read the file of a run, if there is one."""
        self._layout, self._begun, path = layout, False, layout.embedded
        counts = read_json(path) if path.exists() else {"times": 0, "tokens": 0}
        if not isinstance(counts, dict) or not all(_is_count(counts.get(name)) for name in ("times", "tokens")):
            raise RunError(f"{path} does not hold two counts; restore it from a backup")
        self.times: int = counts["times"]
        self.tokens: int = counts["tokens"]

    def begin(self) -> None:
        """Count that this process sends the private texts, before it does."""
        self.times += int(not self._begun)
        self._begun = True
        self.save()

    def add(self, tokens: int) -> None:
        """Count tokens of public texts."""
        self.tokens += tokens
        self.save()

    def save(self) -> None:
        """Write the counts, if there are any and the run has a folder already."""
        if (self.times or self.tokens) and self._layout.settings.exists():
            write_json(self._layout.embedded, {"times": self.times, "tokens": self.tokens}, mode=0o600)


def refuse_idle_caps(settings: Settings, *, writing: bool = True) -> None:
    """Refuse caps where no service is paid, and where workers would each count for themselves."""
    embeds = settings.embedder.startswith("openai:")
    if settings.max_images is not None and not (writing and settings.draws):
        limited = ", ".join(settings.kind.services) or "a service that draws"
        raise InputError(f"max_images limits {limited}, got generator {settings.generator}; leave it out")
    for name in ("max_cost", "max_tokens_total"):
        if getattr(settings, name) is None:
            continue
        if embeds and settings.on_ray:
            raise InputError(f"{name} cannot be shared by workers that use {settings.embedder}; use engine local")
        if not embeds and not (writing and settings.services):
            what = f"generator {settings.generator}" if writing else f"embedder {settings.embedder}"
            raise InputError(f"{name} limits a service, and the {what} is not one; leave it out")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def make_purse(settings: Settings, answers: Path | None = None, embedded: int = 0) -> Purse:
    """Return what the caps leave after the stored answers and `embedded` tokens of earlier processes."""
    most, price, images = settings.max_tokens_total, settings.max_cost, settings.max_images
    capped = (most, price, images) != (None, None, None)
    used = stored_tokens(answers)[1] if capped and answers is not None else Tokens()
    tokens, cost = used.total + embedded, embedded * settings.embedding_price / 1e6
    cost += (used.prompt * settings.prices[0] + used.completion * settings.prices[1]) / 1e6
    cost += used.images * settings.image_price
    caps = (("max_tokens_total", most, tokens), ("max_cost", price, cost), ("max_images", images, used.images))
    for name, cap, spent in caps:
        if cap is not None and spent and cap <= spent:
            raise SpendingError(f"the run has used its {name} of {cap:g}; raise it to resume")
    return Purse(
        None if most is None else most - tokens,
        None if price is None else price - cost,
        (*settings.prices, settings.embedding_price, settings.image_price),
        None if images is None else images - used.images,
    )
