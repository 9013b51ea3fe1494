"""The HTML report of a run, in one file.

The release version is computed from synthetic samples, noisy votes and public settings. That is post-processing: it
costs no privacy and carries the guarantee of the run. The internal version also shows private points and scores against
them. It is NOT differentially private, and says so in red.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gape._support.files import require_writable_file, write_atomically
from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Embedder
from gape.core.types import Points
from gape.embedders.cached import Cached
from gape.report.lineage import Held, gather, hold, shown
from gape.report.page import MARK, Internal, MapData, render
from gape.report.plane import embed_samples, fit_plane, local_embedder
from gape.report.regions import Regions, Voted, find_regions
from gape.runs.folder.record import RunRecord, read_run

__all__ = ["EmbeddingProgress", "write_report"]

_DRAWN = 300  # samples per round on the map
_VOTED = 2000  # candidates of the last round that are clustered into regions


@dataclass(frozen=True)
class EmbeddingProgress:
    """Progress of the embedding, which is the only slow step."""

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
    progress: Callable[[EmbeddingProgress], None] | None = None,
) -> Path:
    """Write the report of a run, finished or not, and return its path.

    By default it goes to `release/`, or to `internal/` if the run is unfinished or the report is internal. An earlier
    report there is replaced, but no other file. `private` is only read for an internal report: a file of texts with
    its column `text`, by default the data of the run, or for vectors an array written by `numpy.save`. The map needs
    embeddings of the samples, which are computed on this machine whatever embedder the run used.
    """
    if not internal and (private is not None or text is not None):
        raise InputError("private data is only shown in an internal report; add --internal, or leave it out")
    record = read_run(run)
    path = _destination(record, out, internal=internal)
    held = hold(record, _DRAWN, np.random.default_rng([record.plan.seed, *b"map"]))
    map_data, private_data = None, None
    if with_map or internal:
        source = (private, text) if internal else None
        map_data, private_data = _embed_all(record, held, source, progress or (lambda _: None))
    page = render(record, gather(record, held), map_data, private_data, title).encode()
    write_atomically(path, page, mode=0o600 if internal else None)
    return path


def _destination(record: RunRecord, out: str | Path | None, *, internal: bool) -> Path:
    """Choose the file to write: never an internal report into `release/`, never over a file that is not a report."""
    layout = record.layout
    usual = layout.internal_report if internal or not record.finished else layout.release_report
    path = Path(out) if out else usual
    if internal and layout.release.resolve() in path.resolve().parents:
        raise PrivacyError(f"{path} is in the folder to be published, and an internal report is not; name another file")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file for the report")
    if path.exists() and MARK.encode() not in path.read_bytes()[:200]:
        raise InputError(f"{path} exists and is not a report, so it is not overwritten; name another file")
    require_writable_file(path)
    return path


def _embed_all(
    record: RunRecord,
    held: Held,
    private: tuple[str | Path | None, str | None] | None,
    progress: Callable[[EmbeddingProgress], None],
) -> tuple[MapData, Internal | None]:
    """Embed what the map and the regions need; with `private`, a file and its column, the private data as well."""
    bare, name = local_embedder(record)
    embedder = Cached(bare)  # for public samples only
    drawn = [record.samples(t)[held.members[t][held.drawn[t]]] for t in range(record.last + 1)]
    sampled = _sample_candidates(record)
    done, total = 0, sum(map(len, drawn)) + len(sampled)

    def count(more: int) -> None:
        nonlocal done
        done += more
        progress(EmbeddingProgress(min(done, total), total))

    points = [embed_samples(embedder, samples, count) for samples in drawn]
    view = None
    if private is not None:
        from gape.report.private import read_private  # noqa: PLC0415  (a report for release never imports it)

        view = read_private(record, bare, *private, count)
    plane = fit_plane(np.concatenate(points))
    regions = _cluster_candidates(record, held, points[-1], embedder, sampled, view.points if view else None, count)
    internal = None if view is None else Internal(view, view.scores(points))
    return MapData(plane, points, regions, name), internal


def _sample_candidates(record: RunRecord) -> list[int]:
    """Choose the candidates of the last round to embed: all, or a random sample that does not depend on votes."""
    if not record.rounds:
        return []
    rng = np.random.default_rng([record.plan.seed, *b"candidates"])
    return sorted(rng.permutation(len(record.rounds[-1].votes))[:_VOTED].tolist())


def _cluster_candidates(
    record: RunRecord,
    held: Held,
    points: Points,
    embedder: Embedder,
    sampled: list[int],
    private: Points | None,
    progress: Callable[[int], None],
) -> Regions | None:
    if not record.rounds:
        return None
    candidates, votes = record.candidates(record.last)[sampled], record.rounds[-1].votes
    share = len(sampled) / len(votes)
    voted = Voted(
        embed_samples(embedder, candidates, progress),
        shown(record, candidates),
        votes[sampled],
        share,
        pictured=record.modality.pictures(candidates[:0]) is not None,
    )
    texts = shown(record, record.samples(record.last)[held.drawn[-1]])
    return find_regions(voted, points, texts, record.sigma, record.plan.seed, private)
