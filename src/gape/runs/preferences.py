"""Noisy votes as a training signal: pairs of candidates, of which the private records preferred one."""

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gape.core.errors import InputError
from gape.core.types import Indices, Samples
from gape.generators.labels import LABELLED
from gape.generators.prompts import Prompts
from gape.runs.folder.record import RunRecord
from gape.runs.generator import make_prompts

# A difference of two votes has noise of sqrt(2) sigma. Pairs that differ by at most this many times that are left out.
CLEARLY = 2.0

_MESSAGES = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
_COLUMNS = {
    "prompt": _MESSAGES,
    "chosen": _MESSAGES,
    "rejected": _MESSAGES,
    "round": pa.int64(),
    "votes_apart": pa.int64(),
}


def preferences(record: RunRecord) -> pa.Table:
    """Return pairs of a preferred and a rejected candidate with the request for such a text, as chats.

    Post-processing of the noisy votes, which are paid for: the pairs cost no further privacy. In each round, and for
    each label, the candidates are ordered by their noisy votes; the first is paired with the last, the second with the
    last but one, and so on, as long as the votes are apart by more than `CLEARLY` times the noise of a difference. The
    columns prompt, chosen and rejected are those that TRL trains on.
    """
    of_texts = record.modality.plain_texts and record.start.dtype in {np.dtype(object), LABELLED}
    if record.settings is None or not of_texts:
        raise InputError(
            f"preferences are made from a run of texts by `gape run`, and {record.path} is not one; export it in "
            "another format"
        )
    outside = (record.settings.prompts or "").endswith(".toml")
    if outside and not record.own:
        raise InputError(
            f"the prompts of {record.path} are in a file outside it, and it was not written by you on this machine; "
            "export the preferences where the run was made"
        )
    prompts = make_prompts(record.settings, None)
    rng = np.random.default_rng([record.plan.seed, *b"preferences"])
    rows = list(dict.fromkeys(_pairs(record)))
    columns: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    for turn, label, chosen, rejected, apart in rows:
        asked = _prompt(prompts, record, label).random_prompt(rng, widened=False)
        chats = (("user", asked), ("assistant", chosen), ("assistant", rejected))
        values = (*([{"role": role, "content": text}] for role, text in chats), turn, apart)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    if not rows:
        raise InputError(
            f"no two candidates of {record.path} have votes that differ by more than their noise; use more records, "
            "fewer samples or a larger epsilon"
        )
    return pa.table({name: pa.array(columns[name], kind) for name, kind in _COLUMNS.items()})


def _pairs(record: RunRecord) -> Iterator[tuple[int, str | None, str, str, int]]:
    """Yield (round, label, preferred text, rejected text, difference of their noisy votes)."""
    least = CLEARLY * math.sqrt(2) * max(record.sigma, 0.0)
    for turn, done in enumerate(record.rounds, start=1):
        candidates = record.candidates(turn)
        for label, members in _by_label(candidates):
            votes = done.votes[members]
            order = members[np.argsort(-votes, kind="stable")]
            texts = candidates["text"] if candidates.dtype.names else candidates
            for best, worst in zip(order[: len(order) // 2], order[::-1], strict=False):
                apart = int(done.votes[best]) - int(done.votes[worst])
                if apart <= least:
                    break
                if texts[best] != texts[worst]:
                    yield turn, label, str(texts[best]), str(texts[worst]), apart


def _by_label(candidates: Samples) -> Iterator[tuple[str | None, Indices]]:
    if not candidates.dtype.names:
        yield None, np.arange(len(candidates))
        return
    for label in sorted(set(candidates["label"].tolist())):
        yield str(label), np.flatnonzero(candidates["label"] == label)


def _prompt(prompts: Prompts, record: RunRecord, label: str | None) -> Prompts:
    column = None if record.settings is None else record.settings.label
    return prompts if label is None else prompts.telling({column or "label": label})
