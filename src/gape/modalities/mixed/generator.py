"""Rows with texts: cells drawn from the schema, and texts that a language model writes to agree with them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Samples
from gape.generators.asking import ask, draw_each
from gape.generators.prompts import delimited
from gape.generators.reading import Draft
from gape.generators.resampled import ResampledText
from gape.modalities.base import TextWriter
from gape.modalities.mixed.answers import in_json
from gape.modalities.mixed.columns import Telling
from gape.modalities.mixed.conversing import TurnsWriter
from gape.modalities.mixed.schema import MixedSchema
from gape.modalities.mixed.turns import Turns
from gape.modalities.rows.generator import RowGenerator
from gape.modalities.rows.schema import Schema

_UNTOLD = Telling()
Kind: TypeAlias = Literal["text", "cells", "both"]  # what a variation changes
_Row: TypeAlias = dict[str, Any]  # cells and texts by column; None for a missing one


@dataclass(frozen=True)
class MixedGenerator:
    """Random rows have uniform cells, and texts written for them. Prompts contain only cells and texts of candidates.

    A variation at scale s does one of three things. With probability `text_only` the cells stay, and one of the texts
    is varied at scale s. Otherwise a share `cell_share` of s of the cells changes, as in a table: with probability
    `cells_only` under the same texts, so that votes tell which cells a text goes with, and else each text that must
    agree with something that changed is written again as a whole, after its old form. If the model does not deliver a
    text, the sample is used unchanged. The cells in `fixed` are the same in all rows, and never change.
    """

    schema: MixedSchema
    writer: TextWriter  # with the prompts of the run, which are adapted to each cell
    given: str  # the template that tells the model the other cells
    text_only: float = 0.5
    cells_only: float = 0.5
    cell_share: float = 1 / 3
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        shares = self.text_only, self.cells_only, self.cell_share
        if not all(0 <= share <= 1 for share in shares) or not self.cell_share:
            raise InputError(
                f"text_only, cells_only and cell_share must be shares, the last above 0, got {shares}; the defaults "
                "are 1/2, 1/2 and 1/3"
            )

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        """Draw `count` rows. A row whose text the model did not deliver is replaced by another one."""
        rows = self._outlines(None if self._rows is None else self._rows.random(count, rng), count)
        lost: set[int] = set()
        for name in self.schema.texts:
            asked = [index for index, row in enumerate(rows) if row[name] is not None]
            texts = draw_each(
                self.writer.model,
                self._new_drafts(name, [rows[index] for index in asked], rng),
                len(asked),
                self.writer.prompts.name,
                # Conversations begin alike, and are not copies for that.
                distinct=self.writer.distinct and not isinstance(self.schema.texts[name], Turns),
            )
            for index, text in zip(asked, texts, strict=True):
                rows[index][name] = text or ""
                if text is None:
                    lost.add(index)
        usable = [row for index, row in enumerate(rows) if index not in lost]
        if rows and not usable:
            raise InputError("the model wrote no row with all of its texts; use another model")
        return self._lines(
            [usable[int(rng.integers(len(usable)))] if index in lost else row for index, row in enumerate(rows)]
        )

    def topics(self) -> Samples:
        """Return a row for each topic. Their cells are the same, so that the topics alone tell them apart."""
        outline = {} if self._rows is None else json.loads(self._rows.random(1, np.random.default_rng(0))[0])
        cells = {**outline, **self.fixed}
        return self._lines([{**cells, **dict.fromkeys(self.schema.texts, topic)} for topic in self.writer.topics()])

    def favouring(self, shares: Floats) -> "MixedGenerator":
        """Return the generator whose texts are about topics with these probabilities."""
        return replace(self, writer=self.writer.favouring(shares))

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        """Return one variation of each row, crossing the cells of rows with one another."""
        return self.vary_to(samples, scales, [{}] * len(samples), rng)

    def vary_to(
        self, samples: Samples, scales: Floats, wanted: Sequence[Mapping[str, str]], rng: np.random.Generator
    ) -> Samples:
        """Return one variation of each row with the wanted values in its cells, and a text written for them."""
        self.writer.check(scales)
        if not len(samples):
            return samples.copy()
        before = self._parsed(samples)
        rows, kinds = self._moved(before, scales, rng)
        for index, cells in enumerate(wanted):
            rows[index].update({name: self.schema.cell(name, value) for name, value in cells.items()})
            if cells:
                kinds[index] = "text"
        chosen = [self._one_text(row, rng) if kinds[index] == "text" else None for index, row in enumerate(rows)]
        failed: set[int] = set()
        for name in self.schema.texts:
            drafts = [
                self._draft(
                    name, row, before[index], float(scales[index]), rng, kinds[index], varied=chosen[index] == name
                )
                for index, row in enumerate(rows)
            ]
            asked = [index for index, draft in enumerate(drafts) if draft is not None]
            answers = ask(self.writer.model, [self._asked(name, draft) for draft in drafts if draft is not None])
            for index, text in zip(asked, answers, strict=True):
                rows[index][name] = text
                if text is None:
                    failed.add(index)
        return self._lines([before[index] if index in failed else row for index, row in enumerate(rows)])

    def _moved(self, before: Sequence[_Row], scales: Floats, rng: np.random.Generator) -> tuple[list[_Row], list[Kind]]:
        """Return the rows with the cells of their variations, and what kind of variation each of them is."""
        rows, kinds = [{**row, **self.fixed} for row in before], list[Kind](["text"] * len(before))
        if self._rows is None:
            return rows, kinds
        moved, alone = rng.random(len(rows)) >= self.text_only, rng.random(len(rows)) < self.cells_only
        crossed = self._rows.vary(self._outline_lines(before), np.minimum(scales, 1.0) * self.cell_share, rng)
        for index in np.flatnonzero(moved).tolist():
            rows[index] = self._outlined(json.loads(crossed[index]), before[index])
            kinds[index] = "cells" if alone[index] else "both"
        return rows, kinds

    @property
    def _outline(self) -> Schema | None:
        """The columns that variations may change, besides texts; None if there are none."""
        outline = self.schema.outline
        free = {} if outline is None else {name: own for name, own in outline.columns.items() if name not in self.fixed}
        return Schema(free) if free else None

    @property
    def _rows(self) -> RowGenerator | None:
        return None if self._outline is None else RowGenerator(self._outline)

    def _draft(
        self, name: str, row: _Row, before: _Row, scale: float, rng: np.random.Generator, kind: Kind, *, varied: bool
    ) -> Draft | None:
        """Return the request for a text of a variation, or None if the text stays."""
        if row[name] is None or (kind == "cells" and before[name] is not None):
            return None
        writer = self._writer(name, row)
        if before[name] is None:
            return writer.new(rng)
        if any(row[other] != before[other] for other in self.schema.told(name)):
            return writer.alike(before[name], rng)
        if not varied:
            return None
        if scale == 1 and isinstance(writer, ResampledText):
            return writer.new(rng)
        return writer.varied(before[name], scale, rng)

    def _new_drafts(self, name: str, rows: Sequence[_Row], rng: np.random.Generator) -> Callable[[int], Draft]:
        return lambda index: self._asked(name, self._writer(name, rows[index]).new(rng))

    def _asked(self, name: str, draft: Draft) -> Draft:
        """Ask a chat service for JSON. A model that continues an opening writes plain text."""
        return draft if self.writer.model.can_continue else in_json(draft, name, self.schema.texts[name])

    def _writer(self, name: str, row: Mapping[str, Any]) -> TextWriter | TurnsWriter:
        """Return the writer of a text, with prompts that contain the cells that it must agree with."""
        text = self.schema.texts[name]
        cells, means, openings = list[str](), list[str](), tuple[str, ...]()
        for other in self.schema.told(name):
            if (cell := row[other]) is None:
                continue
            telling = self.schema.telling.get(other, _UNTOLD)
            openings = openings or telling.openings.get(str(cell), ())
            if meaning := telling.means.get(str(cell)):
                means.append(meaning)
            else:
                cells.append(f"{other}: {delimited(cell) if other in self.schema.texts else cell}")
        prompts = replace(
            self.writer.prompts,
            domain=text.about,
            words=text.words,
            given=self.given,
            cells="\n".join([*cells, *means]),
            openings=openings or self.writer.prompts.openings,
        )
        writer = replace(self.writer, prompts=prompts)
        return TurnsWriter(writer, text) if isinstance(text, Turns) else writer

    def _one_text(self, row: _Row, rng: np.random.Generator) -> str | None:
        written = [name for name in self.schema.texts if row[name] is not None]
        return written[int(rng.integers(len(written)))] if written else None

    def _outlines(self, lines: Samples | None, count: int) -> list[_Row]:
        """Return rows with their cells, and an empty text wherever there should be one."""
        if lines is None:
            return [{**self.fixed, **dict.fromkeys(self.schema.texts, "")} for _ in range(count)]
        return [self._outlined(json.loads(line), {}) for line in lines]

    def _outlined(self, outline: _Row, before: _Row) -> _Row:
        """Return the cells of an outline with the texts from before, where there should be one."""
        texts = {name: None if outline.get(name) == "empty" else before.get(name) or "" for name in self.schema.texts}
        return {**outline, **self.fixed, **texts}

    def _outline_lines(self, rows: Sequence[_Row]) -> Samples:
        names = () if self._outline is None else tuple(self._outline.columns)
        presence = {name: ["empty" if row[name] is None else "written" for row in rows] for name in self.schema.texts}
        return self.schema.cell_lines(
            [
                {name: presence[name][index] if name in presence else row[name] for name in names}
                for index, row in enumerate(rows)
            ]
        )

    def _parsed(self, samples: Samples) -> list[_Row]:
        cells, texts = self.schema.split(samples)
        return [{**row, **{name: texts[name][index] for name in texts}} for index, row in enumerate(cells)]

    def _lines(self, rows: Sequence[_Row]) -> Samples:
        texts = {name: [row[name] for row in rows] for name in self.schema.texts}
        cells = [{name: row[name] for name in self.schema.names if name not in texts} for row in rows]
        return self.schema.join(cells, texts)
