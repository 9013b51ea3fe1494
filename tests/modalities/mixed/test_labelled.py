"""A strict column: rows with labels, by the same parts as texts and images with labels."""

import json
import math
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gape
from gape.core.errors import InputError
from gape.core.types import Counts, Points, Samples, as_samples
from gape.distributed.cluster import TextShard
from gape.generators.labels import LABELLED, LabelledEmbedder, LabelledGenerator, PerLabel, labelled
from gape.generators.resampled import ResampledText
from gape.language.scripted import ScriptedModel
from gape.modalities import Columns, Mixed
from gape.modalities.mixed.embedder import MixedEmbedder
from gape.privacy.ledger import Ledger
from gape.runs.electorate import make_electorate
from gape.runs.folder.record import read_run
from gape.runs.generator import make_generator, make_prompts
from gape.runs.labels import embed_private, known_labels
from gape.runs.resolve import resolved
from gape.runs.settings import Settings
from gape.selection.ranking import Ranking
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest
from generators.writing import write

SCHEMA = """
[stars]
choices = [1, 2, 3]
weight = 40
means.1 = "You are very angry."
openings.1 = ["Never again"]

[price]
least = 0
most = 9

[review]
text = "customer reviews"
words = 20
"""
STARS = ("1", "2", "3")


@dataclass(frozen=True)
class Letters:
    """Embeds texts by their letters, with length 1."""

    def embed(self, samples: Samples) -> Points:
        counts = np.array([[text.lower().count(letter) for letter in "aeiost"] for text in samples], dtype=np.float32)
        points: Points = (counts + 0.1) / np.linalg.norm(counts + 0.1, axis=1, keepdims=True)
        return points


@pytest.fixture
def schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "reviews.toml"
    path.write_text(SCHEMA)
    return path


def settings(schema: Path, **values: Any) -> Settings:
    common = {"schema": str(schema), "label": "stars", "epsilon": 4.0, "samples": 6, "rounds": 1}
    return Settings.of({**common, **values})


def rows(count: int = 60) -> list[dict[str, Any]]:
    """Rows of which most have one star, and few have three."""
    return [
        {"stars": (1, 1, 1, 1, 2, 3)[i % 6], "price": i % 10, "review": f"Visit {i}: the {'soup' if i % 2 else 'tea'}."}
        for i in range(count)
    ]


def corpus(path: Path, names: tuple[str, ...], count: int = 30) -> str:
    with path.open("w") as file:
        for i in range(count):
            row = {"stars": 1 + i % 3, "price": i % 10, "review": f"On day {i} the bread was {'cold' * (i % 4)} there."}
            file.write(json.dumps({name: row[name] for name in names}) + "\n")
    return f"corpus:{path}"


def written(schema: Path, **values: Any) -> tuple[LabelledGenerator, ScriptedModel]:
    chosen, model = settings(schema, topics=("soup",), labels=STARS, **values), ScriptedModel(write)
    chosen = chosen.with_values(variation="resample")
    made = make_generator(chosen, model, make_prompts(chosen, model), None)
    assert isinstance(made, LabelledGenerator)
    return made, model


def cells(samples: Samples) -> list[dict[str, Any]]:
    return [json.loads(line) for line in samples["text"]]


def stars_of(samples: Samples) -> list[str]:
    """The labels, which are cells of the rows."""
    assert samples["label"].tolist() == [str(row["stars"]) for row in cells(samples)]
    return list(samples["label"])


def test_the_start_has_every_value_alike_and_tells_it_in_the_words_of_the_schema(schema: Path) -> None:
    made, model = written(schema)
    start = made.random(12, np.random.default_rng(0))
    assert start.dtype == LABELLED
    assert stars_of(start) == ["1"] * 4 + ["2"] * 4 + ["3"] * 4
    assert len({row["price"] for row in cells(start)}) > 3
    angry = [call for call in model.calls if "You are very angry." in call.prompt]
    assert len(angry) >= 4
    assert {call.opening for call in angry} == {"Never again"}
    assert not any("stars: 1" in call.prompt for call in model.calls)
    assert any("stars: 3" in call.prompt for call in model.calls)


def test_variations_never_change_the_value_but_all_else(schema: Path) -> None:
    made, _ = written(schema)
    rng = np.random.default_rng(1)
    before = rng.permutation(made.random(60, rng))
    after = made.vary(before, np.full(60, 0.9), rng)
    assert stars_of(after) == stars_of(before)
    for name in ("price", "review"):
        changed = [old[name] != new[name] for old, new in zip(cells(before), cells(after), strict=True)]
        assert 0.15 < np.mean(changed) < 0.9


def test_rows_are_written_to_another_value_after_their_old_form(schema: Path) -> None:
    made, model = written(schema)
    before = made.random(12, np.random.default_rng(0))
    model.calls.clear()
    wanted = [{"stars": "1", "price": "7"}] * 11 + [{"price": "7"}]
    after = made.vary_to(before, np.full(12, 0.9), wanted, np.random.default_rng(1))
    written_to = np.flatnonzero(before != after)
    assert len(written_to) >= 8
    assert stars_of(after) == [("1" if i < 11 else "3") if i in written_to else before["label"][i] for i in range(12)]
    assert {row["price"] for row in cells(after[written_to])} == {7}
    for row in cells(before)[4:11]:
        assert any(row["review"] in call.prompt and "You are very angry." in call.prompt for call in model.calls)


def test_a_column_that_is_the_only_one_without_texts_can_be_strict(schema: Path) -> None:
    schema.write_text("[stars]\nchoices = [1, 2]\n[review]\ntext = 'reviews'\nagrees = ['stars']\n")
    generator = make_generator(
        settings(schema, labels=("1", "2"), topics=("soup",), variation="resample"),
        ScriptedModel(write),
        make_prompts(settings(schema), None),
        None,
    )
    start = generator.random(20, np.random.default_rng(0))
    after = generator.vary(start, np.full(20, 0.9), np.random.default_rng(1))
    assert stars_of(after) == stars_of(start) == ["1"] * 10 + ["2"] * 10
    assert np.mean(start["text"] != after["text"]) > 0.8
    public = corpus(schema.parent / "public.jsonl", ("review",))
    both = Mixed(schema).read_corpus(public.partition(":")[2], Columns(label="stars"))
    assert [json.loads(row)["stars"] for row in both] == [1] * 30 + [2] * 30


@pytest.mark.parametrize("weight", [1, 40, 1000])
def test_any_row_of_its_value_is_nearer_than_all_others(schema: Path, weight: int) -> None:
    schema.write_text(SCHEMA.replace("least = 0", f"weight = {weight}\nleast = 0") + f"weight = {weight}\n")
    kind = Mixed(schema)
    far = [{"price": price, "review": text} for price in (0, 9) for text in ("aaaa", "eeee", "tttt")]
    lines = as_samples([kind.schema.line({"stars": int(star), **row}) for star in STARS for row in far])
    labels = [star for star in STARS for _ in far]
    points = kind.compared(Letters()).embed(lines)
    largest = float(np.linalg.norm(points, axis=1).max())
    assert 0.6 * kind.longest < largest <= kind.longest * (1 + 1e-6)
    marked = LabelledEmbedder(MixedEmbedder(kind.schema, Letters()), STARS, kind.longest).embed(labelled(labels, lines))
    apart = np.linalg.norm(marked[:, None] - marked[None], axis=2)
    same = np.array(labels)[:, None] == np.array(labels)
    assert apart[same].max() < apart[~same].min()
    chosen = PerLabel(Ranking(), STARS)(np.arange(len(marked)), marked, 6, np.random.default_rng(0))
    assert sum(chosen.sizes.values()) == 6


def test_shares_are_exactly_those_of_the_noisy_votes(schema: Path) -> None:
    public = corpus(schema.parent / "public.jsonl", ("stars", "price", "review"))
    made = gape.synthesize(
        rows(600),
        schema=str(schema),
        label="stars",
        generator=public,
        epsilon=4,
        samples=12,
        rounds=2,
        folder="run",
        ledger="spent.sqlite",
    )
    record = read_run("run")
    diagnostics = record.rounds[-1].diagnostics
    votes = {label: max(0, sum(done.diagnostics["noisy_votes"][label] for done in record.rounds)) for label in STARS}
    exact = {label: 12 * count / sum(votes.values()) for label, count in votes.items()}
    kept = {label: sum(str(row["stars"]) == label for row in made.rows()) for label in STARS}
    assert kept == diagnostics["sizes"]
    assert diagnostics["shares"] == {
        label: pytest.approx(share, abs=1) for label, share in exact.items()
    }  # rounded by largest remainders
    assert kept["1"] > kept["2"]
    assert made.labels == [str(row["stars"]) for row in made.rows()]
    record_votes = record.rounds[-1].votes
    labels = record.candidates(record.last)["label"]
    assert diagnostics["noisy_votes"] == {label: int(record_votes[labels == label].sum()) for label in STARS}


def test_a_corpus_without_the_column_is_offered_under_each_value(schema: Path) -> None:
    public = corpus(schema.parent / "public.jsonl", ("price", "review"))
    chosen = settings(schema, generator=public, labels=STARS)
    generator = make_generator(chosen, None, make_prompts(chosen, None), Mixed(schema).compared(Letters()))
    start = generator.random(90, np.random.default_rng(0))
    assert stars_of(start) == ["1"] * 30 + ["2"] * 30 + ["3"] * 30
    texts = [sorted(row["review"] for row in cells(start[start["label"] == label])) for label in STARS]
    assert texts[0] == texts[1] == texts[2]
    plain = Settings.of({"label": "stars", "labels": STARS, "epsilon": 1.0, "generator": public})
    plain = plain.with_values(corpus_text="review")
    whole = make_generator(plain, None, make_prompts(plain, None), Letters())
    assert isinstance(whole, LabelledGenerator)
    assert len({id(own) for own in whole.generators.values()}) == 1  # a corpus of texts is embedded once
    assert len(set(texts[0])) == 30
    made = gape.synthesize(rows(), schema=str(schema), label="stars", generator=public, epsilon=8, samples=6, rounds=1)
    assert list(made.rows()[0]) == ["stars", "price", "review"]
    with pytest.raises(InputError, match="no column 'stars'"):
        gape.synthesize(rows(), schema=str(schema), generator=public, epsilon=8, samples=6, rounds=1)


def test_a_corpus_with_the_column_keeps_its_values(schema: Path) -> None:
    public = corpus(schema.parent / "public.jsonl", ("stars", "price", "review"))
    chosen = settings(schema, generator=public, labels=STARS)
    generator = make_generator(chosen, None, make_prompts(chosen, None), Mixed(schema).compared(Letters()))
    start = generator.random(30, np.random.default_rng(0))
    stars_of(start)
    assert len({row["review"] for row in cells(start)}) == 30  # none is offered twice
    few = corpus(schema.parent / "few.jsonl", ("stars", "price", "review"), count=5)
    chosen = chosen.with_values(generator=few)
    with pytest.raises(InputError, match="the corpus has 1 different rows with stars 3, and each label needs 2"):
        make_generator(chosen, None, make_prompts(chosen, None), Mixed(schema).compared(Letters()))


def test_runs_with_and_without_a_strict_column_share_vectors_and_a_budget(schema: Path) -> None:
    public = corpus(schema.parent / "public.jsonl", ("stars", "price", "review"))
    schema.with_name("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(120)))
    common: dict[str, Any] = {
        "schema": str(schema),
        "generator": public,
        "epsilon": math.inf,
        "samples": 6,
        "rounds": 2,
    }
    embedded = Settings.of({"data": "rows.jsonl", "label": "stars", **common})
    folder = gape.embed_texts(embedded, "vectors")
    assert folder.manifest.labels is not None
    for label in (None, "stars"):
        options: dict[str, Any] = {"label": label} if label else {}
        here, disk = (
            gape.synthesize(data, folder=f"{data}-{label}", **common, **options) for data in ("rows.jsonl", "vectors")
        )
        assert here.rows() == disk.rows()
    spent = gape.synthesize("rows.jsonl", ledger="one.sqlite", **(common | {"epsilon": 2}), budget_epsilon=5)
    strict = gape.synthesize("rows.jsonl", ledger="one.sqlite", **(common | {"epsilon": 2}), label="stars")
    assert len(spent) == len(strict) == 6
    with closing(Ledger("one.sqlite")) as ledger:
        assert len(ledger.releases()) == 4


def test_rows_are_read_for_vectors_block_by_block(schema: Path) -> None:
    given = [{**row, "who": f"u{i % 7}"} for i, row in enumerate(rows(25))]
    columns = Columns(None, "stars", "who")
    whole, blocks = Mixed(schema).read(given, columns), list(Mixed(schema).blocks(given, columns, 10))
    assert [len(block) for block in blocks] == [10, 10, 5]
    for name in ("content", "labels", "users", "contents"):
        assert [part for block in blocks for part in getattr(block, name)] == list(getattr(whole, name))
    assert {block.source for block in blocks} == {whole.source}
    lazy = Mixed(schema).blocks([*given, {**given[0], "stars": "many"}], columns, 10)
    assert [len(next(lazy)), len(next(lazy))] == [10, 10]  # before the last row is read
    with pytest.raises(InputError, match="item 26 of the list"):
        next(lazy)
    with pytest.raises(InputError, match="holds no rows"):
        next(Mixed(schema).blocks(pa.Table.from_pylist(given).slice(0, 0), columns, 10))


def counts_by_user(schema: Path, owners: list[str], votes_per_unit: int) -> Counts:
    """Exact votes of rows of one value each, by users, for candidates of all values."""
    given = [{**row, "who": owner} for row, owner in zip(rows(len(owners)), owners, strict=True)]
    chosen = settings(schema, user="who", votes_per_unit=votes_per_unit, votes_per_record=1, delta=1e-5)
    kind = Mixed(schema)
    private = kind.read(given, Columns(None, "stars", "who"))
    chosen = resolved(chosen, private)
    embedder = kind.compared(Letters())
    lines = as_samples([kind.schema.line({"stars": int(star), "price": 3, "review": "the tea"}) for star in STARS])
    candidates = LabelledEmbedder(embedder, STARS, kind.longest).embed(labelled(STARS, lines))
    electorate = make_electorate(chosen, private, embedder)
    assert isinstance(electorate, LocalElectorate)
    return sum((electorate.count(candidates, turn) for turn in range(1, 4)), start=np.zeros(3, dtype=np.int64))


@pytest.mark.parametrize("votes_per_unit", [1, 2])
def test_a_user_casts_its_votes_once_however_many_values_its_rows_have(schema: Path, votes_per_unit: int) -> None:
    counts = counts_by_user(schema, ["one"] * 30, votes_per_unit)
    assert 0 < counts.sum() <= 3 * votes_per_unit
    assert counts_by_user(schema, ["one"] * 30 + ["two"] * 3, votes_per_unit).sum() <= 6 * votes_per_unit


def test_a_record_votes_for_its_own_value_alone(schema: Path) -> None:
    counts = counts_by_user(schema, [str(i) for i in range(60)], 1)
    assert counts.tolist() == [3 * 40, 3 * 10, 3 * 10]


def test_texts_with_labels_and_rows_with_them_are_made_by_the_same_parts(schema: Path) -> None:
    rule, _ = written(schema)
    plain = Settings.of({"label": "stars", "labels": STARS, "epsilon": 1.0, "variation": "resample"})
    model = ScriptedModel(write)
    texts = make_generator(plain, model, make_prompts(plain, model), None)
    assert type(rule) is type(texts) is LabelledGenerator
    assert all(isinstance(own, ResampledText) for own in texts.generators.values())
    texts.random(3, np.random.default_rng(0))
    assert [any(call.prompt.endswith(f"\nstars: {star}") for call in model.calls) for star in STARS] == [True] * 3


def test_a_worker_embeds_rows_as_the_one_process_does(schema: Path) -> None:
    path = schema.with_name("rows.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(12)))
    kind = Mixed(schema)
    shard = TextShard(str(path), lambda: kind.compared(Letters()), label="stars", labels=STARS, modality=kind)
    private = kind.read(str(path), Columns(label="stars"))
    chosen = settings(schema, labels=STARS)
    points = embed_private(chosen, kind.compared(Letters()), private.content, private.labels)
    assert np.array_equal(shard.read().points, points)
    assert settings(schema, engine="ray").labels is None  # the workers get the choices of the schema
    assert known_labels(settings(schema, engine="ray")) == STARS


def refusal(schema: Path, **values: Any) -> str:
    with pytest.raises(InputError) as caught:
        gape.synthesize(rows(), schema=str(schema), epsilon=4, samples=6, rounds=1, **values)
    return str(caught.value)


def test_columns_that_cannot_be_strict_are_refused(schema: Path) -> None:
    assert "label must name a column of choices of the schema, got 'price'; name one of 'stars'" in refusal(
        schema, label="price"
    )
    assert "'review' is not a column without texts of the schema" in refusal(schema, label="review")
    other = "the labels are the choices of 'stars' in the schema; leave out any others"
    assert other in refusal(schema, label="stars", labels=["1", "2"])
    assert other in refusal(schema, label="stars", labels_are_public=True)
    with pytest.raises(InputError, match="'9' is a value that is none of its 3 choices for column 'stars'"):
        Mixed(schema).having("stars", "9")
    schema.write_text(SCHEMA.replace("weight = 40", "missing = true"))
    assert "column 'stars' may be empty, and a label never is; set missing = false there" in refusal(
        schema, label="stars"
    )


def test_the_nearest_of_all_candidates_has_the_same_value(schema: Path) -> None:
    rng, kind = np.random.default_rng(4), Mixed(schema)
    texts = ["".join(rng.choice(list("aeiost "), 12)) + "." for _ in range(80)]
    labels = [str(star) for star in rng.integers(1, 4, 80)]
    drawn = zip(labels, texts, strict=True)
    lines = as_samples([kind.schema.line({"stars": int(star), "price": 3, "review": text}) for star, text in drawn])
    points = LabelledEmbedder(kind.compared(Letters()), STARS, kind.longest).embed(labelled(labels, lines))
    own = nearest(points[:40], points[40:])
    assert [labels[40 + index] for index in own] == labels[:40]
