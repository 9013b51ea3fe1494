"""How much better GAPE is than another method with the same seed, epsilon by epsilon, beside the paper's recall.

    python experiments/paper_text/paired.py FOLDER --paper pubmed

reads the results.csv of a comparison and writes paired.md beside it. Runs of one seed share who is held out, the start
and the source of the noise, and what they share cancels in the difference. Scores are of records that did not vote,
after the last round.
"""

import argparse
import csv
import math
from pathlib import Path

from gape.core.errors import InputError
from gape.evaluation.compare import SeedMean
from gape.evaluation.compare.results import label_of

MEASURES = {"recall": ("recall", 1), "sinkhorn": ("Sinkhorn W1", -1)}  # as it is printed, and which way is better

# The paper's table of recall over epsilon, all records voting and scoring.
_EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 100.0)
_PAPER = {
    ("pubmed", "augpe"): (0.0040, 0.0105, 0.0161, 0.0234, 0.0288, 0.0276, 0.0281),
    ("pubmed", "gape"): (0.0036, 0.0104, 0.0148, 0.0211, 0.0258, 0.0286, 0.0282),
    ("pubmed", "subsamplepe"): (0.0032, 0.0062, 0.0083, 0.0102, 0.0118, 0.0124, 0.0139),
    ("reddit", "augpe"): (0.1269, 0.2220, 0.2734, 0.3216, 0.3320, 0.3354, 0.3107),
    ("reddit", "gape"): (0.1282, 0.2312, 0.2809, 0.3204, 0.3246, 0.3241, 0.3260),
    ("reddit", "subsamplepe"): (0.0975, 0.1465, 0.1683, 0.1982, 0.2086, 0.2156, 0.2045),
}
DATASETS = tuple(dict.fromkeys(dataset for dataset, _ in _PAPER))

Scores = dict[tuple[str, float], dict[int, dict[str, float]]]  # by method and epsilon, then by seed


def last_scores(file: Path) -> Scores:
    """Read the scores by records that did not vote after the last round of every run; real records have no epsilon."""
    if not file.exists():
        raise InputError(f"there is no {file}; name the folder of a comparison")
    found: Scores = {}
    with file.open(newline="") as opened:
        rows = [row for row in csv.DictReader(opened) if row["scored_by"] == "held out" and row["epsilon"]]
    for row in sorted(rows, key=lambda row: int(row["round"])):
        runs = found.setdefault((row["method"], float(row["epsilon"])), {})
        runs[int(row["seed"])] = {name: float(row[name]) for name in MEASURES}
    return found


def paired(scores: Scores, method: str, other: str, paper: str | None = None) -> list[dict[str, str]]:
    """Return a row for each epsilon at which both methods have runs of the same seeds: means and differences.

    "Better by" is more recall, or less W1, ± half of its 95% interval by Student's t, of which one seed has none.
    """
    rows = []
    for epsilon in sorted({epsilon for _, epsilon in scores}):
        mine, theirs = (scores.get((name, epsilon), {}) for name in (method, other))
        seeds = sorted(mine.keys() & theirs.keys())
        if not seeds:
            continue
        row = {"epsilon": f"{epsilon:g}", "seeds": str(len(seeds))}
        for name, (said, sign) in MEASURES.items():
            for label, runs in ((label_of(other), theirs), (label_of(method), mine)):
                row[f"{said}, {label}"] = f"{SeedMean(tuple(runs[seed][name] for seed in seeds)).mean:.4f}"
            gains = SeedMean(tuple(sign * (mine[seed][name] - theirs[seed][name]) for seed in seeds))
            reach = "" if math.isnan(gains.reach) else f" ± {gains.reach:.4f}"
            row[f"{said}, better by"] = f"{gains.mean:+.4f}{reach}"
        rows.append(row | (_printed(paper, method, other, epsilon) if paper else {}))
    if not rows:
        raise InputError(f"no seed has runs of both {method} and {other} at the same epsilon; run both, or name others")
    return rows


def _printed(paper: str, method: str, other: str, epsilon: float) -> dict[str, str]:
    """What the paper's table says of both methods at an epsilon, and by how much the first is better."""
    known = epsilon in _EPSILONS and {(paper, method), (paper, other)} <= _PAPER.keys()
    theirs, mine = (_PAPER[paper, name][_EPSILONS.index(epsilon)] if known else math.nan for name in (other, method))
    said = {label_of(other): f"{theirs:.4f}", label_of(method): f"{mine:.4f}", "better by": f"{mine - theirs:+.4f}"}
    return {f"the paper's recall, {name}": value if known else "" for name, value in said.items()}


def markdown(rows: list[dict[str, str]]) -> str:
    """Write rows as a table."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main() -> None:
    """Read the options, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="of a comparison")
    parser.add_argument("--method", default="gape")
    parser.add_argument("--other", default="augpe")
    parser.add_argument("--paper", choices=DATASETS, help="put the paper's recall on this dataset beside it")
    asked = parser.parse_args()
    for folder in asked.folders:
        text = markdown(paired(last_scores(folder / "results.csv"), asked.method, asked.other, asked.paper))
        (folder / "paired.md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
