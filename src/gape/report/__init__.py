"""A run as one page of HTML, to look at rather than to read.

The release version is computed from what the run has published or may publish: synthetic samples, noisy votes, public
settings. That is post-processing, so it costs no privacy and carries the guarantee of the run. The internal version
draws private points and measures by them; it is not differentially private, and says so in red.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gape._support.files import write_atomically
from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Embedder
from gape.core.types import Points
from gape.embedders.cached import Cached
from gape.report.lineage import Held, gather, hold, in_words
from gape.report.page import MARK, Drawn, Internal, render
from gape.report.plane import embed, fit_plane, local_embedder
from gape.report.regions import Regions, Voted, find_regions
from gape.runs.record import RunRecord, read_run

__all__ = ["Embedding", "write_report"]

_DRAWN = 300  # samples of a round on the map
_VOTED = 2000  # candidates of the last round that tell votes by region

NAME = "report.html"


@dataclass(frozen=True)
class Embedding:
    """How far the only slow step is."""

    done: int
    total: int


def write_report(
    run: str | Path,
    out: str | Path | None = None,
    *,
    title: str | None = None,
    with_map: bool = True,
    internal: bool = False,
    private: str | Path | None = None,
    text: str | None = None,
    progress: Callable[[Embedding], None] | None = None,
) -> Path:
    """Write the report of a run, finished or not, and return its path.

    By default it goes to `release/` of a finished run, and to `internal/` where the run has not ended or the report is
    internal; an earlier report there is replaced, and no other file. `private` is read for an internal report alone: a
    file of texts with its column `text`, by default the data of the run, or for vectors an array as `numpy.save` writes
    it. The map needs the samples embedded, which happens on this machine whatever the run has used.
    """
    if not internal and (private is not None or text is not None):
        raise InputError("private data is shown in an internal report alone; add --internal, or leave it out")
    folder = read_run(run)
    path = _destination(folder, out, internal=internal)
    held = hold(folder, _DRAWN, np.random.default_rng([folder.plan.seed, *b"map"]))
    drawn, seen = None, None
    if with_map or internal:
        drawn, seen = _draw(folder, held, (private, text) if internal else None, progress or (lambda _: None))
    page = render(folder, gather(folder, held), drawn, seen, title).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page, mode=0o600 if internal else None)
    return path


def _destination(folder: RunRecord, out: str | Path | None, *, internal: bool) -> Path:
    """Say where the report goes; never a private one into what is published, never over what is no report."""
    release = folder.path / "release"
    path = Path(out) if out else (folder.path / "internal" if internal or not folder.finished else release) / NAME
    if internal and release.resolve() in path.resolve().parents:
        raise PrivacyError(
            f"{path} lies in the folder to be published, and an internal report is not; name another file"
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file for the report")
    if path.exists() and MARK.encode() not in path.read_bytes()[:200]:
        raise InputError(f"{path} exists and is no report, so it is not overwritten; name another file")
    if out and not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder; make it first")
    return path


def _draw(
    folder: RunRecord,
    held: Held,
    private: tuple[str | Path | None, str | None] | None,
    progress: Callable[[Embedding], None],
) -> tuple[Drawn, Internal | None]:
    """Embed what the map and the regions need; with `private`, look at the private data as well."""
    bare, name = local_embedder(folder)
    embedder = Cached(bare)  # of public samples alone
    picked = [folder.samples(t)[held.places[t][held.drawn[t]]] for t in range(folder.last + 1)]
    voted = _picked_candidates(folder)
    done, total = 0, sum(map(len, picked)) + len(voted)

    def tell(more: int) -> None:
        nonlocal done
        done += more
        progress(Embedding(min(done, total), total))

    points = [embed(embedder, each, tell) for each in picked]
    view = None
    if private is not None:
        from gape.report.private import look  # noqa: PLC0415  (a report for release has no use for it)

        view = look(folder, bare, *private, tell)
    plane = fit_plane(np.concatenate(points))
    regions = _regions(folder, held, points[-1], embedder, voted, view.points if view else None, tell)
    drawn = Drawn(plane, points, regions, name)
    return drawn, None if view is None else Internal(view, view.scores(points))


def _picked_candidates(folder: RunRecord) -> list[int]:
    """Choose the candidates of the last round to be embedded: all, or some at random, whatever votes they got."""
    if not folder.rounds:
        return []
    rng = np.random.default_rng([folder.plan.seed, *b"candidates"])
    return sorted(rng.permutation(len(folder.rounds[-1].votes))[:_VOTED].tolist())


def _regions(
    folder: RunRecord,
    held: Held,
    points: Points,
    embedder: Embedder,
    picked: list[int],
    private: Points | None,
    tell: Callable[[int], None],
) -> Regions | None:
    if not folder.rounds:
        return None
    candidates, votes = folder.candidates(folder.last)[picked], folder.rounds[-1].votes
    voted = Voted(embed(embedder, candidates, tell), in_words(candidates), votes[picked], len(picked) / len(votes))
    shown = in_words(folder.samples(folder.last)[held.drawn[-1]])
    return find_regions(voted, points, shown, folder.sigma, folder.plan.seed, private)
