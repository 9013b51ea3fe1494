"""A finished run as files for others: its published data, with a card that says what protects it."""

import csv
import io
import json
import math
import os
import re
import shutil
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from gape.errors import InputError, RunError
from gape.files import (
    holds_rows,
    read_json,
    read_samples,
    read_table,
    refuse_links,
    samples_to_columns,
    table_bytes,
    write_atomically,
)
from gape.plan import Plan
from gape.privacy.accounting import Release, delta_spent, stated
from gape.privacy.statement import PrivacyStatement
from gape.types import Samples

Format = Literal["csv", "jsonl", "parquet", "hf"]

_RELATION = {
    "replace": "replace-one: the private data with one {unit} replaced by another",
    "add_remove": "add-or-remove-one: the private data with one {unit} more or less",
}

# A description of a part on the card ends here; the whole is in the settings of the run.
_LONGEST_DESCRIPTION = 400

_LARGEST_NUMBER = 2**53  # of rounds, samples and seeds
EPSILON_TOLERANCE = 1e-6  # relative: `spent` is computed to 1e-8

# What is protected is named by a word or two, and what was not paid for in a few; both go into texts for others.
_UNIT = re.compile(r"\w[\w -]{0,39}")
_IN_WORDS = re.compile(r"[\w ,.;()-]{0,200}")

# Addresses of services and files are of no use to others, and may say more than was meant.
_ADDRESS = re.compile(r"https?://[^\s'\"]+|(?<=['\"(=])[/~][^'\")]*")

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~-])")

_SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}

_NOT_PRIVATE = (
    "**THIS DATASET IS NOT PRIVATE.** NO GUARANTEE COVERS IT, AND RECORDS OF REAL PEOPLE MAY HAVE DECIDED EVERY ROW. "
    "TREAT IT LIKE THE PRIVATE DATA ITSELF."
)

_POST_PROCESSING = (
    "The guarantee holds for everything computed from the noisy votes, and so for this dataset: differential privacy "
    "is closed under post-processing. Whatever is done with these rows, copying, filtering, training or publishing, "
    "costs no further privacy, as long as the private data is not used again. It holds against readers with any "
    "knowledge and any computing power."
)

_UNPROTECTED = """\
- What is true of many: the dataset is meant to show it, and with it what can be concluded about one {unit} from all \
the others.
- Groups: for k {unit}s together the bound is k times epsilon, with a delta that grows faster than k times.
- What the generator knew before: text that it learned from elsewhere can appear here, and no noise was added for it. \
If it was trained on the private data, the guarantee above says nothing.
- Choices made by looking at the private data, such as settings or prompts, and further releases about the same data: \
both add to the cost.
- Truth: rows are invented or from elsewhere, and one that resembles a person or an event is no evidence of either."""


def export(
    run: str | Path,
    destination: str | Path,
    format: Format,  # noqa: A002  (the users' word)
    rows: Samples | None = None,
) -> list[Path]:
    """Write the published data of a finished run, and nothing else of it, in a format for others.

    Only `release/` and the public settings are read, so what is written carries the guarantee of the run. `csv`,
    `jsonl` and `parquet` write the file `destination`, and beside it a card and the privacy statement; `hf` writes a
    folder that the Hugging Face hub and `datasets` take as a dataset. Nothing is overwritten. The statement and the
    card come before the data, and a folder comes as a whole. Returns the files written. `rows` takes the place of the
    published data; they must be made from it without the private data, as by `expand`, to carry its guarantee.

    CSV has every cell in quotes and none changed, so that data survives the way there and back: a text that begins
    with =, +, - or @ is kept as it is, and spreadsheet programs may take it for a formula. Vectors get a column per
    dimension in CSV, and lists elsewhere.
    """
    if format not in get_args(Format):
        raise InputError(f"format must be one of {', '.join(get_args(Format))}, got {format!r}")
    source, destination = Path(run), Path(destination)
    settings, statement, table = read_finished(source)
    if rows is not None:
        table = pa.table(samples_to_columns(rows, rows=holds_rows(settings["parts"])))
    card = _card(destination.stem, settings, statement, table, hub=format == "hf")
    privacy = (source / "release" / "privacy.json").read_bytes()
    if format == "hf":
        content = {
            "privacy.json": privacy,
            "README.md": card,
            "data/train-00000-of-00001.parquet": table_bytes(table),
        }
        return _write_folder(destination, content)
    writers = {"csv": _as_csv, "jsonl": _as_json_lines, "parquet": table_bytes}
    data = writers[format](table)
    files = {
        destination.with_suffix(".privacy.json"): privacy,
        destination.with_suffix(".card.md"): card,
        destination: data,
    }
    _refuse_existing(destination, *files)
    for path, content_of_file in files.items():
        write_atomically(path, content_of_file)
    return list(files)


def read_finished(path: Path) -> tuple[dict[str, Any], PrivacyStatement, pa.Table]:
    """Read settings, statement and data of a run, if the data is what its last round selected."""
    settings_file, release = path / "internal" / "settings.json", path / "release"
    if not settings_file.exists() and (path / "internal" / "settings.toml").exists():
        raise RunError(f"{path} holds a run that has written nothing yet; wait for its first texts, or resume it")
    if not settings_file.exists():
        raise RunError(f"{path} is not the folder of a run; name the folder that the run was made in")
    refuse_links(path)
    settings = read_settings(settings_file)
    rounds = int(settings["plan"]["rounds"])
    last = path / "internal" / "rounds" / f"{rounds:03d}" / "synthetic.parquet"
    done = last.exists() and all((release / name).exists() for name in ("privacy.json", "synthetic.parquet"))
    if done:
        statement = read_statement(release / "privacy.json")
        table = read_table(release / "synthetic.parquet")
        # An extended run keeps the release of fewer rounds until it ends.
        selected = samples_to_columns(read_samples(last, read_table(last)), rows=holds_rows(settings["parts"]))
        if len(statement.sigma) == rounds and table.equals(pa.table(selected)):
            return settings, statement, table
    raise RunError(
        f"{path} holds a run that has not finished its {rounds} rounds; resume it by the call that started it, "
        "and export it then"
    )


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings of a run and check that they are such: a whole plan, and three parts in words."""
    settings: dict[str, Any] = read_json(path)
    try:
        plan = settings["plan"]
        numbers = {name: float(plan[name]) for name in ("epsilon", "delta", "sigma")}
        whole = {name: plan[name] for name in ("rounds", "samples", "copies", "votes_per_unit", "initial", "seed")}
        if not all(type(value) is int and value < _LARGEST_NUMBER for value in whole.values()):
            raise TypeError
        if type(plan["keep"]) is not bool or plan["neighbours"] not in _RELATION:
            raise TypeError
        if not 0 <= numbers["sigma"] < math.inf:
            raise ValueError
        known = asdict(Plan(**(plan | numbers | {"scales": tuple(plan["scales"])})))
        parts = {name: settings["parts"][name] for name in ("generator", "embedder", "selector")}
        if not all(isinstance(part, str) for part in parts.values()):
            raise TypeError
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise RunError(f"{path} is not that of a run ({type(error).__name__}); restore it from a copy") from error
    return settings | {"plan": known, "parts": parts}


def read_statement(path: Path) -> PrivacyStatement:
    """Read a privacy statement, and refuse one that cannot be."""
    values = read_json(path)
    try:
        numbers = {name: float(values[name]) for name in ("epsilon", "delta", "dataset_epsilon")}
        sigma = tuple(float(scale) for scale in values["sigma"])
        plain = {field.name: values[field.name] for field in fields(PrivacyStatement) if field.name in values}
        statement = PrivacyStatement(**(plain | numbers | {"sigma": sigma}))
        _check_statement(statement)
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise RunError(f"{path} is not a privacy statement ({type(error).__name__}); restore it from a copy") from error
    return statement


def _check_statement(statement: PrivacyStatement) -> None:
    """Refuse what no run states: it goes into cards and pages, and what is said to be private must be a sound claim."""
    plain = type(statement.private) is bool and type(statement.secure_noise) is bool
    numbers = (statement.epsilon, statement.delta, statement.dataset_epsilon, *statement.sigma)
    sound = all(each >= 0 for each in numbers) and 0 < statement.delta < 1 and type(statement.votes_per_unit) is int
    words = _UNIT.fullmatch(statement.unit) and _IN_WORDS.fullmatch(statement.unpaid)
    if not (plain and sound and words and statement.neighbours in _RELATION) or statement.votes_per_unit < 1:
        raise ValueError
    if statement.private and (not statement.secure_noise or statement.unpaid or not _holds(statement)):
        raise ValueError


def _holds(statement: PrivacyStatement) -> bool:
    """Whether the releases that a statement tells of cost no more than it claims."""
    if math.isinf(statement.epsilon):
        return False
    releases = [Release(sigma, statement.neighbours, statement.votes_per_unit) for sigma in statement.sigma]
    return delta_spent(releases, statement.epsilon * (1 + EPSILON_TOLERANCE)) <= statement.delta


def _as_csv(table: pa.Table) -> bytes:
    names, columns = [], []
    for name in table.column_names:
        cells = table[name].to_pylist()
        if pa.types.is_fixed_size_list(table.schema.field(name).type):
            width = table.schema.field(name).type.list_size
            names += [f"{name}_{i}" for i in range(width)]
            columns += [[cell[i] for cell in cells] for i in range(width)]
        else:
            names.append(name)
            columns.append(cells)
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def _as_json_lines(table: pa.Table) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()


def _refuse_existing(destination: Path, *files: Path) -> None:
    for path in files:
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} exists and nothing is overwritten; remove it or name another destination")
    if not destination.parent.is_dir():
        raise InputError(f"{destination.parent} is not a folder; make it first")


def _write_folder(destination: Path, content: dict[str, bytes]) -> list[Path]:
    """Write a folder under another name and rename it, so that it is there as a whole or not at all."""
    _refuse_existing(destination, destination)
    unfinished = destination.with_name(f".{destination.name}.{os.getpid()}.tmp")
    try:
        for name, part in content.items():
            (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(unfinished / name, part)
        unfinished.rename(destination)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return [destination / name for name in content]


def _card(name: str, settings: dict[str, Any], statement: PrivacyStatement, table: pa.Table, *, hub: bool) -> bytes:
    """Describe the dataset and its guarantee for a privacy officer, with the metadata that the hub reads first."""
    columns = _in_markdown(", ".join(table.column_names))
    summary = (
        f"{len(table)} synthetic records; columns: {columns}. Every row was written by a generator, or taken by it "
        "from public texts; private records only voted on candidates (Private Evolution), and rows are those that were "
        "kept, or variations of them."
    )
    parts = [
        _front_matter(name, statement, len(table), hub=hub),
        f"# {_in_markdown(name)}",
        summary,
        "## Privacy",
        statement.text(),
        *(_guarantee(statement) if statement.private else [_NOT_PRIVATE]),
        "## What was taken as public",
        _public(settings, statement),
        "## What is not protected",
        _UNPROTECTED.format(unit=statement.unit),
    ]
    return ("\n\n".join(parts) + "\n").encode()


def _in_markdown(text: str) -> str:
    """Write a text so that Markdown and HTML take it for what it says, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;")


def _front_matter(name: str, statement: PrivacyStatement, rows: int, *, hub: bool) -> str:
    size = next((text for limit, text in _SIZES.items() if rows < limit), "n>1M")
    pretty = json.dumps(name).replace("\x7f", "\\u007f")  # a JSON string is one of YAML but for this
    lines = [f"pretty_name: {pretty}", "tags:", "- synthetic"]
    lines += ["- differential-privacy"] if statement.private else ["- not-private"]
    lines += ["size_categories:", f"- {size}"]
    if hub:
        lines += ["configs:", "- config_name: default", "  data_files:", "  - split: train", "    path: data/train-*"]
    return "\n".join(["---", *lines, "---"])


def _guarantee(statement: PrivacyStatement) -> list[str]:
    unit = statement.unit
    rows = {
        "Guarantee": "(epsilon, delta)-differential privacy",
        "Epsilon": stated(statement.epsilon),
        "Delta": stated(statement.delta),
        "Neighbouring data": _RELATION[statement.neighbours].format(unit=unit),
        "Unit of privacy": f"one {unit}",
        "Mechanism": "discrete Gaussian noise on the number of votes that each candidate gets, a vote being for the "
        "candidate, or one of the few, nearest in the embedding",
        "Releases": f"{len(statement.sigma)}, each depending on those before it",
        "Scale of the noise": ", ".join(f"{scale:g}" for scale in sorted(set(statement.sigma))) + " votes",
        f"Votes of one {unit}": f"at most {statement.votes_per_unit} in a release",
        "Source of the noise": "the operating system's secure generator; no seed exists",
        "All releases about the data": statement.in_total,
    }
    table = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())]
    return ["\n".join(table), _POST_PROCESSING]


def _public(settings: dict[str, Any], statement: PrivacyStatement) -> str:
    plan = settings["plan"]
    generator, embedder, selector = (
        _described(settings["parts"][name]) for name in ("generator", "embedder", "selector")
    )
    names = ("rounds", "samples", "initial", "scales", "copies", "keep", "votes_per_unit")
    lines = [
        *([f"The number of {statement.unit}s in the private data."] if statement.neighbours == "replace" else []),
        "The names of the columns, the labels where there are any, and of a table what its columns can hold.",
        "The settings: " + ", ".join(f"{name} {plan[name]}" for name in names) + ".",
        f"The generator, taken not to depend on the private data, with its prompts: `{generator}`",
        f"The embedder: `{embedder}`",
        f"The selection rule: `{selector}`",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _described(part: str) -> str:
    text = " ".join(_ADDRESS.sub("...", part).replace("`", "'").split())
    return text if len(text) <= _LONGEST_DESCRIPTION else text[:_LONGEST_DESCRIPTION] + " ..."
