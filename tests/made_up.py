"""Made-up private texts with canaries in them, a public corpus, and a search for what must not be found."""

import csv
import itertools
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

PLACES = ("bakery", "garage", "library", "museum", "dentist", "market", "hotel", "school")
VERDICTS = ("was friendly", "was closed", "took too long", "cost a lot", "smelled good")
ENDS = ("today", "again", "on Monday", "for my sister")
CANARIES = ("xylograph-77213", "quokka-raincoat-5519", "person-of-record-40816")
STARS = ("low", "mid", "high")
PROMPTS = """
domain = "short reports"
words = 16
random = ["Write one of {domain}."]
rephrase = ["Say it in other words: {sample}"]
"""


def public_texts() -> list[str]:
    return [f"The {a} {b} {c}." for a, b, c in itertools.product(PLACES, VERDICTS, ENDS)]


def private_rows(count: int = 90) -> list[dict[str, str]]:
    """Rows of review, stars and who; every third holds a canary, and so do all users."""
    rows = []
    for i in range(count):
        secret = f" Ask for {CANARIES[i % 2]}." if i % 3 == 0 else ""
        text = f"Our {PLACES[i % 3]} {VERDICTS[i % 5]} {ENDS[i % 4]}, number {i}.{secret}"
        rows.append({"review": text, "stars": STARS[i % 2], "who": f"{CANARIES[2]}-{i % 40}"})
    return rows


def write_csv(path: Path, rows: Iterable[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["review", "stars", "who"])
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_corpus(path: Path) -> Path:
    path.write_text("\n".join(public_texts()) + "\n")
    return path


def leaks(folder: Path, *spared: Path) -> list[str]:
    """Name the files under a folder, but for those spared, that hold a canary, as bytes or in a column."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file() and path not in spared):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(pq.read_table(path).to_pylist()).encode()
        if any(canary.encode() in content for canary in CANARIES):
            found.append(str(path))
    return found
