"""Tables beside AIM and MST: one guarantee, one split, one set of scores.

    python experiments/tables/beside.py prepare --private FILE --schema SCHEMA --target COLUMN --work FOLDER
    python experiments/tables/beside.py make --way survey --epsilon 1 --seed 0 --work FOLDER
    python experiments/tables/beside.py make --way AIM --epsilon 1 --seed 0 --work FOLDER
    python experiments/tables/beside.py score --work FOLDER --out experiments/tables/results/beside/NAME.jsonl
    python experiments/tables/beside.py drawn --epsilon 1 --seed 1 --work FOLDER --out FILE
    python experiments/tables/beside.py summary --out experiments/tables/results/beside

A tenth of the records is held out. Rows are kept as codes of the schema. Scores are by all held-out records: total
variation of columns and of pairs of columns (20 bins for numbers), the area under the ROC curve of gradient boosting
that predicts the target, the spread of numbers (mean ratio of standard deviations), and W1 of 1,000 rows. The noise is
drawn from a seed, except that of AIM and MST, which need gape[marginals]: this is for data that may be looked at.
"""

import argparse
import json
import math
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from gape.core.protocols import SurveyGenerator
from gape.core.types import Floats
from gape.evolution.evolve import evolve
from gape.metrics import sinkhorn1
from gape.modalities import Columns, Rows, Schema
from gape.modalities.rows.columns import Choices
from gape.modalities.rows.embedder import RowEmbedder
from gape.modalities.rows.measures import table_scores
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.electorate import make_electorate
from gape.runs.generator import make_generator, make_prompts
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import make_selector
from gape.runs.settings import Settings

HELD_OUT, SCORED, DRAWS = 0.1, 1_000, 10
MEASURES = {"rows": 0, "TV1": 4, "TV2": 4, "AUC": 3, "spread": 2, "W1": 4, "seconds": 0, "gigabytes": 1}  # digits
WAYS: dict[str, dict[str, Any]] = {
    "survey": {},
    "rounds": {"survey": False},
    "survey and rounds": {"survey": True, "rounds": 10, "samples": 2000},
    # Tab-PE's variations and the size of its authors, with ranking in all rounds; it draws survivors in the first five.
    "Tab-PE": {
        "survey": False,
        "selector": "ranking",
        "votes_per_record": 1,
        "samples": 1000,
        "rounds": 15,
        "scales": (0.3, 0.3, 0.3),
    },
    "survey, expanded": {},  # by `gape expand`, to four times as many rows
}
OTHERS = {label: name for name, label in Rows.baselines.items()}  # methods of OpenDP


def prepare(args: argparse.Namespace) -> None:
    """Split the records and store their codes."""
    schema = Schema.read(args.schema)
    codes = schema.codes(Rows(schema).read(args.private, Columns()).content)
    order = np.random.default_rng(0).permutation(len(codes))
    out = round(HELD_OUT * len(codes))
    args.work.mkdir(parents=True, exist_ok=True)
    np.savez(args.work / "split.npz", held_out=codes[order[:out]], voters=codes[order[out:]])
    (args.work / "schema.toml").write_text(Path(args.schema).read_text())
    (args.work / "about.json").write_text(json.dumps({"target": args.target}))


def make(args: argparse.Namespace) -> None:
    """Make rows in one of the ways."""
    if args.way in OTHERS:
        make_by_other(args)
        return
    schema, split = Schema.read(args.work / "schema.toml"), np.load(args.work / "split.npz")
    table = [json.loads(line) for line in schema.lines(split["voters"])]
    settings = Settings.of(
        WAYS[args.way], {"schema": str(args.work / "schema.toml"), "epsilon": args.epsilon, "seed": args.seed}
    )
    began = time.process_time()
    records = settings.records.read(table, Columns())
    settings = resolved(settings, records)
    plan = make_plan(settings)
    embedder = settings.records.embedder()
    generator = make_generator(settings, None, make_prompts(settings, None), None)
    ledger = Ledger(":memory:", Budget(math.inf, plan.delta))
    parts = make_electorate(settings, records, embedder), make_selector(settings, plan), Account(ledger, "run")
    first, *later = evolve(plan, generator, embedder, *parts, noise=SeededNoise(args.seed))
    rows = (first, *later)[-1].synthetic
    if args.way == "survey, expanded" and isinstance(generator, SurveyGenerator):
        informed = generator.informed(first.answers, plan.sigma)
        rows = informed.random(4 * len(rows), np.random.default_rng([args.seed, *b"expand"]))
    store(args.work, args.way, args.epsilon, args.seed, schema.codes(rows), time.process_time() - began)


def make_by_other(args: argparse.Namespace) -> None:
    """Make as many rows as there are records by a method of OpenDP."""
    schema = Schema.read(args.work / "schema.toml")
    voters = schema.lines(np.load(args.work / "split.npz")["voters"])
    n, began = len(voters), time.process_time()
    method = Rows(schema).baseline(OTHERS[args.way])
    rows = method(voters, n, args.epsilon, 1 / (n * math.log(n)), "replace", args.seed)
    store(args.work, args.way, args.epsilon, args.seed, schema.codes(rows), time.process_time() - began)


def store(work: Path, way: str, epsilon: float, seed: int, codes: Floats, seconds: float) -> None:
    """Store rows with the CPU seconds and the peak memory that they took."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    np.savez(work / f"{way}-{epsilon:g}-{seed}.npz", rows=codes, seconds=seconds, gigabytes=peak)


def score(args: argparse.Namespace) -> None:
    """Add the scores of all rows that were made and are not scored yet, after those of real records."""
    schema, split = Schema.read(args.work / "schema.toml"), np.load(args.work / "split.npz")
    target = json.loads((args.work / "about.json").read_text())["target"]
    held_out, voters = split["held_out"], split["voters"]
    if not args.out.exists():
        real = (("real, all", voters), ("real, 640", voters[:640]))
        _add(args.out, *({"way": way, **scores(schema, target, rows, held_out)} for way, rows in real))
    lines = list(map(json.loads, args.out.read_text().splitlines()))
    known = {(line["way"], line.get("epsilon"), line.get("seed")) for line in lines}
    for file in sorted(args.work.glob("*-*-*.npz")):
        way, epsilon, seed = file.stem.rsplit("-", 2)
        if (way, float(epsilon), int(seed)) in known:
            continue
        made = np.load(file)
        cost = {"seconds": round(float(made["seconds"]), 1), "gigabytes": round(float(made["gigabytes"]), 2)}
        scored = scores(schema, target, made["rows"], held_out)
        _add(args.out, {"way": way, "epsilon": float(epsilon), "seed": int(seed), **scored, **cost})


def _add(out: Path, *lines: dict[str, Any]) -> None:
    with out.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def drawn(args: argparse.Namespace) -> None:
    """Add W1 of other 1,000 rows of the same tables, of a run and of `gape expand`."""
    schema, split = Schema.read(args.work / "schema.toml"), np.load(args.work / "split.npz")
    embedder = RowEmbedder(schema)
    real = embedder.embed(schema.lines(np.random.default_rng(0).permutation(split["held_out"])[:SCORED]))
    for file in sorted(args.work.glob(f"survey*-{args.epsilon:g}-{args.seed}.npz")):
        way, _, seed = file.stem.rsplit("-", 2)
        rows = np.load(file)["rows"]
        with args.out.open("a") as out:
            for draw in range(1, DRAWS + 1):
                some = rows[np.random.default_rng(draw).permutation(len(rows))[:SCORED]]
                found = round(sinkhorn1(real, embedder.embed(schema.lines(some))).value, 5)
                line = {"table": args.work.name, "way": way, "seed": int(seed), "draw": draw, "W1": found}
                out.write(json.dumps(line) + "\n")


def summary(folder: Path) -> str:
    """Return a table of the means over seeds, for each table, epsilon and way."""
    lines = [f"| table | epsilon | way | seeds | {' | '.join(MEASURES)} |", "| --- " * (4 + len(MEASURES)) + "|"]
    for file in sorted(folder.glob("*.jsonl")):
        groups: dict[tuple[float, str], list[dict[str, Any]]] = {}
        for line in map(json.loads, file.read_text().splitlines()):
            groups.setdefault((line.get("epsilon", math.inf), line["way"]), []).append(line)
        for (epsilon, way), found in sorted(groups.items()):
            means = [_mean(found, measure) for measure in MEASURES]
            shown = "" if math.isinf(epsilon) else f"{epsilon:g}"
            lines.append(f"| {file.stem} | {shown} | {way} | {len(found)} | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


def _mean(found: Sequence[dict[str, Any]], measure: str) -> str:
    values = [line[measure] for line in found if measure in line]
    return f"{np.mean(values):.{MEASURES[measure]}f}" if values else ""


def scores(schema: Schema, target: str, rows: Floats, held_out: Floats) -> dict[str, float]:
    """Return the scores of coded rows by held-out records."""
    rng, embedder = np.random.default_rng(0), RowEmbedder(schema)
    real, made = (embedder.embed(schema.lines(rng.permutation(codes)[:SCORED])) for codes in (held_out, rows))
    found = {
        "rows": len(rows),
        **table_scores(held_out, rows, schema),
        "AUC": auc(schema, target, rows, held_out),
        "W1": sinkhorn1(real, made).value,
    }
    return {name: round(value, 4) for name, value in found.items()}


def auc(schema: Schema, target: str, rows: Floats, held_out: Floats) -> float:
    """Return the area under the curve of a classifier that learned the target from rows."""
    names = list(schema.columns)
    index = names.index(target)
    others = [name for name in names if name != target]
    chosen = [number for number, name in enumerate(others) if isinstance(schema.columns[name], Choices)]
    train, test = (np.delete(codes, index, axis=1) for codes in (rows, held_out))
    if len(np.unique(rows[:, index])) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0, categorical_features=chosen).fit(train, rows[:, index])
    chances = np.zeros((len(test), len(np.unique(held_out[:, index]))))
    chances[:, model.classes_.astype(int)] = model.predict_proba(test)
    if chances.shape[1] == 2:
        return float(roc_auc_score(held_out[:, index], chances[:, 1]))
    return float(roc_auc_score(held_out[:, index], chances, multi_class="ovr"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments and run a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("prepare", "make", "score", "drawn", "summary"))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--private")
    parser.add_argument("--schema")
    parser.add_argument("--target")
    parser.add_argument("--way", choices=(*WAYS, *OTHERS))
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(arguments)
    if args.step == "summary":
        (args.out / "summary.md").write_text(summary(args.out))
        return
    {"prepare": prepare, "make": make, "score": score, "drawn": drawn}[args.step](args)


if __name__ == "__main__":
    main()
