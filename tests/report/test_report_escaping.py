"""Markup in any text of a run is shown as text. The tests plant it in all of them, whatever fields a run has."""

import copy
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gape.core.types import Samples
from gape.modalities import Rows
from gape.report import page
from gape.report.charts import element
from gape.report.lineage import gather, hold
from gape.report.page import Internal, MapData, render
from gape.report.plane import fit_plane
from gape.report.private import PrivateView
from gape.report.regions import Region, Regions
from gape.runs.folder.record import RunRecord, read_run
from report.reading import elements_of

# Kept as they are: what the code looks up or opens, and what it never shows.
SKIPPED = {"path", "neighbours", "published", "schema"}
SHOWN_SETTINGS = ("variation", "prompts", "domain", "generator", "embedder", "selector", "labels")


def markup(name: str) -> str:
    """Markup that would show as an element or an attribute in any context that does not escape it."""
    return f"--></script></title>\"'><plant-{name} onload='window.hacked=1'>&"


def planted(value: Any, name: str) -> Any:
    """Copy a value with markup after every text in it, also in the keys of a mapping that is not a record of fields."""
    if name in SKIPPED:
        return value
    if isinstance(value, str):
        return value + markup(name)
    if isinstance(value, dict):
        fixed = name in {"parts", "diagnostics"}
        return {key if fixed else planted(key, name): planted(content, str(key)) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(planted(item, name) for item in value)
    if isinstance(value, np.ndarray):
        return planted_array(value, name)
    return planted_fields(value) if is_dataclass(value) else value


def planted_array(values: Samples, name: str) -> Samples:
    changed = values.copy()
    for column in values.dtype.names or ():
        changed[column] = [planted(text, column) for text in values[column]]
    if values.dtype == object:
        changed[:] = [planted(text, name) for text in values]
    return changed


def planted_fields(value: Any) -> Any:
    changed = copy.copy(value)  # not made again, which would check its values
    for field in fields(value):
        object.__setattr__(changed, field.name, planted(getattr(value, field.name), field.name))
    return changed


def page_of(record: RunRecord, *, internal: bool) -> str:
    """A page with everything on it: map, regions, and private points where it is internal."""
    rng = np.random.default_rng(0)
    held = hold(record, 5, rng)
    points = [rng.standard_normal((len(drawn), 4)).astype(np.float32) for drawn in held.drawn]
    region = Region((markup("words"),), markup("typical"), 0.5, 0.1, 0.2, 0.3 if internal else None)
    map_data = MapData(fit_plane(points[-1]), points, Regions((region,), 30, 0.5), markup("compared"))
    view = PrivateView(points[0], 30)
    return render(
        record,
        gather(record, held),
        map_data,
        Internal(view, view.scores(points)) if internal else None,
        markup("heading"),
    )


def elements(html: str, tmp_path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every element of a page with the names of its attributes."""
    (tmp_path / "page.html").write_text(html)
    return ((tag, tuple(attributes)) for tag, attributes in elements_of(tmp_path / "page.html"))


def assert_harmless(html: str, shown: set[str], tmp_path: Path) -> None:
    assert "<plant-" not in html
    assert {name for name in shown if f"plant-{name} " not in unescape(html)} == set()
    for tag, attributes in elements(html, tmp_path):
        assert not tag.startswith("plant-")
        assert not [name for name in attributes if name.startswith("on")]
    assert html.count("</script>") == 2
    assert html.count("</title>") == 1


@pytest.mark.parametrize("internal", [False, True])
def test_no_text_of_a_run_becomes_markup(labelled: Path, tmp_path: Path, internal: bool) -> None:  # noqa: FBT001
    record = read_run(labelled)
    assert record.settings is not None
    settings = record.settings.with_values(
        generator="openai:model", embedder="openai:embedder", domain="reviews", prompts="yelp", variation="rephrase"
    )
    record = planted(replace(record, settings=settings), "record")
    shown = {"text", "label", "gape", "unit", "ledger", "words", "typical", "compared", "heading", *SHOWN_SETTINGS}
    assert_harmless(page_of(record, internal=internal), shown, tmp_path)


def test_no_column_or_part_of_a_run_becomes_markup(texts: Path, tmp_path: Path) -> None:
    """Rows are JSON, with the names of their columns; a run put together in Python has parts of any name."""
    record = read_run(texts)
    rows = [f'{{"{markup("column").replace(chr(34), "")}": {i}}}' for i in range(len(record.start))]
    parts = {"generator": "RowGenerator()", "embedder": "RowEmbedder()", markup("part"): "Ranking()"}
    begun = replace(record.begun, parts=parts)
    record = planted(replace(record, begun=begun, settings=None, modality=Rows(), rounds=()), "record")
    html = page_of(replace(record, start=np.array(rows, dtype=object)), internal=False)
    assert_harmless(html, {"column", "part"}, tmp_path)


def test_charts_escape_what_is_not_markup() -> None:
    drawn = element("text", "<b>", element("tspan", "&"), class_='"><b>', text_anchor="end", x=1.5)
    assert drawn == ('<text class="&#34;&gt;&lt;b&gt;" text-anchor="end" x="1.5">&lt;b&gt;<tspan>&amp;</tspan></text>')


def test_no_template_switches_escaping_off() -> None:
    templates = list(Path(page.__file__).parent.glob("templates/*.html"))
    assert len(templates) > 10
    assert not [path.name for path in templates if re.search(r"\|\s*safe|autoescape", path.read_text())]
