"""Export of a finished run: its published data, with a dataset card that explains the guarantee."""

import csv
import io
import json
import os
import re
import shutil
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from gape._support.files import json_bytes, table_bytes, write_atomically
from gape.core.errors import InputError
from gape.core.types import Samples
from gape.privacy.accounting import stated
from gape.privacy.statement import PrivacyStatement, relation_in_words
from gape.runs.folder.record import RunRecord
from gape.runs.folder.stored import SettingsFolder
from gape.runs.method import method_in_words
from gape.runs.preferences import preferences

Format = Literal["csv", "jsonl", "parquet", "hf", "folder", "preferences"]

# Descriptions of parts on the card are cut here; the run folder has all of them.
_LONGEST_DESCRIPTION = 400

# Addresses of services and files are of no use to others, and may reveal more than intended.
_ADDRESS = re.compile(r"https?://[^\s'\"]+|(?<=['\"(=])[/~][^'\")]*")

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~-])")

_SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}

_NOT_PRIVATE = (
    "**THIS DATASET IS NOT PRIVATE.** NO GUARANTEE COVERS IT, AND RECORDS OF REAL PEOPLE MAY HAVE DECIDED EVERY ROW. "
    "TREAT IT LIKE THE PRIVATE DATA ITSELF."
)

_POST_PROCESSING = (
    "The guarantee holds for everything computed from the noisy counts, and so for this dataset: differential privacy "
    "is closed under post-processing. Copying or filtering these rows, training on them or publishing them costs no "
    "further privacy, as long as the private data is not used again. The guarantee holds against readers with any "
    "knowledge and any computing power."
)

_RECORDS = (
    "A generator wrote every row or took it from public texts. Private records only {did} (Private Evolution); the "
    "rows are the selected candidates, or variations of them."
)
_SURVEYED = (
    "Every row is made up. Private records only answered public questions; the rows were drawn to fit the noisy counts "
    "of their answers."
)
_PREFERENCES = (
    "Each row is a prompt with two answers to it, for preference training such as DPO (the format of TRL). A generator "
    "wrote both answers or took them from public texts. Private records only voted on candidates (Private Evolution): "
    "the chosen answer received clearly more noisy votes than the rejected one. The pairs are computed from votes that "
    "the run below has already released with noise, so they are free of further privacy cost. What is trained on them "
    "has the same guarantee, if nothing else of the private data is used."
)

_UNPROTECTED = """\
- Patterns that many {unit}s share: the dataset is meant to show them, and with them what follows about one {unit} \
from all the others.
- Groups: for k {unit}s together the bound is k times epsilon, with a delta that grows faster than k times.
- What the generator knew before: text that it learned from elsewhere can appear here, and no noise was added for it. \
If it was trained on the private data, the guarantee above says nothing.
- Choices made by looking at the private data, such as settings or prompts, and further releases about the same data: \
both add to the cost.
- Truth: rows are invented or come from elsewhere. A row that resembles a person or an event is no evidence of it."""


def export(
    run: str | Path | SettingsFolder,
    destination: str | Path,
    format: Format,  # noqa: A002  (the users' word)
    rows: Samples | None = None,
) -> list[Path]:
    """Write the published data of a finished run to share, and return the files written.

    Only `release/`, the public settings and, for `preferences`, the candidates with their noisy votes are read, so the
    files carry the guarantee of the run. `csv`, `jsonl` and `parquet` write the file `destination`, with a dataset card
    and the privacy statement beside it. `preferences` does so with JSON lines of preferred and rejected candidates, for
    TRL. `hf` writes a folder that the Hugging Face hub and `datasets` read as a dataset, and `folder` one with a file
    for each sample, such as images in a folder for each label. Nothing is overwritten.
    Statement and card are written before the data, and a folder appears complete or not at all. `rows` replace the
    published data. To carry its guarantee, they must be made from it without the private data, as by `expand`.

    In CSV every cell is quoted and none is changed, so that data survives a round trip. A text that begins with =, +, -
    or @ is kept as it is, and spreadsheet programs may read it as a formula. Vectors become one column per dimension in
    CSV, and lists in other formats.
    """
    if format not in get_args(Format):
        raise InputError(f"format must be one of {', '.join(get_args(Format))}, got {format!r}")
    if rows is not None and format == "preferences":
        raise InputError("texts that were added to a run have no votes, so no preferences; use another format")
    destination = Path(destination)
    record, statement, table = SettingsFolder.of(run).published()
    if rows is not None:
        table = pa.table(record.modality.publish(rows))
    if format == "preferences":
        table = preferences(record)
    card = _card(destination.stem, record, statement, table, format)
    privacy = json_bytes(asdict(statement))  # not the file of the folder, which may contain more
    if format in {"hf", "folder"}:
        files = (
            {"data/train-00000-of-00001.parquet": table_bytes(table)}
            if format == "hf"
            else record.modality.files(table)
        )
        return _write_folder(destination, {"privacy.json": privacy, "README.md": card, **files})
    writers = {"csv": _as_csv, "jsonl": _as_json_lines, "parquet": table_bytes, "preferences": _as_json_lines}
    data = writers[format](table)
    written = {
        destination.with_suffix(".privacy.json"): privacy,
        destination.with_suffix(".card.md"): card,
        destination: data,
    }
    # Statement and card may be there already, from an export in another format.
    _refuse_existing(destination, *(path for path, content in written.items() if not _is_file_of(path, content)))
    _refuse_existing(destination, destination)
    for path, content_of_file in written.items():
        write_atomically(path, content_of_file)
    return list(written)


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
            columns.append([_as_json(cell) if isinstance(cell, list | dict) else cell for cell in cells])
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def _as_json_lines(table: pa.Table) -> bytes:
    return "".join(_as_json(row) + "\n" for row in table.to_pylist()).encode()


def _as_json(value: object) -> str:
    """Return JSON, in which bytes are base64."""
    return json.dumps(value, ensure_ascii=False, default=lambda content: b64encode(content).decode())


def _refuse_existing(destination: Path, *files: Path) -> None:
    for path in files:
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} exists and nothing is overwritten; remove it or name another destination")
    if not destination.parent.is_dir():
        raise InputError(f"{destination.parent} is not a folder; make it first")


def _is_file_of(path: Path, content: bytes) -> bool:
    """Whether a file has this content."""
    return (
        path.is_file()
        and not path.is_symlink()
        and path.stat().st_size == len(content)
        and path.read_bytes() == content
    )


def _write_folder(destination: Path, content: dict[str, bytes]) -> list[Path]:
    """Write a folder under another name and rename it, so that it appears complete or not at all."""
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


def _card(name: str, record: RunRecord, statement: PrivacyStatement, table: pa.Table, kind: Format) -> bytes:
    """Describe the dataset and its guarantee for a privacy officer, with the metadata of the hub in front."""
    columns = _in_markdown(", ".join(table.column_names))
    did = "answered public questions and voted on candidates" if record.plan.answers else "voted on candidates"
    rows, origin = "records", _SURVEYED if record.plan.by_survey else _RECORDS.format(did=did)
    if kind == "preferences":
        rows, origin = "pairs", _PREFERENCES
    summary = f"{len(table)} synthetic {rows}; columns: {columns}. {origin}"
    parts = [
        _front_matter(name, statement, table, hub=kind == "hf"),
        f"# {_in_markdown(name)}",
        summary,
        "## Privacy",
        statement.text(),
        *(_guarantee(statement) if statement.private else [_NOT_PRIVATE]),
        "## What was taken as public",
        _public(record, statement),
        "## What is not protected",
        _UNPROTECTED.format(unit=statement.unit),
    ]
    return ("\n\n".join(parts) + "\n").encode()


def _in_markdown(text: str) -> str:
    """Escape a text for Markdown and HTML, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;")


def _front_matter(name: str, statement: PrivacyStatement, table: pa.Table, *, hub: bool) -> str:
    size = next((text for limit, text in _SIZES.items() if len(table) < limit), "n>1M")
    pretty = json.dumps(name).replace("\x7f", "\\u007f")  # the one difference between strings of JSON and YAML
    lines = [f"pretty_name: {pretty}", "tags:", "- synthetic"]
    lines += ["- differential-privacy"] if statement.private else ["- not-private"]
    lines += ["size_categories:", f"- {size}"]
    if hub:
        lines += ["configs:", "- config_name: default", "  data_files:", "  - split: train", "    path: data/train-*"]
        lines += _features(table.schema)
    return "\n".join(["---", *lines, "---"])


def _features(schema: pa.Schema) -> list[str]:
    """Tell the hub which columns are images. Without any, it recognises all columns by itself."""
    pictures = {
        field.name for field in schema if pa.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0
    }
    if not pictures:
        return []
    kinds = {field.name: "image" if field.name in pictures else field.type for field in schema}
    return ["dataset_info:", "  features:", *(f"  - name: {name}\n    dtype: {kind}" for name, kind in kinds.items())]


def _guarantee(statement: PrivacyStatement) -> list[str]:
    unit = statement.unit
    counts = "votes" if len(statement.answers) < len(statement.sigma) else "counts"
    rows = {
        "Guarantee": "(epsilon, delta)-differential privacy",
        "Epsilon": stated(statement.epsilon),
        "Delta": stated(statement.delta),
        "Neighbouring relation": relation_in_words(statement.neighbours, unit, named=True),
        "Unit of privacy": f"one {unit}",
        "Mechanism": "; ".join(_mechanisms(statement)),
        "Releases": f"{len(statement.sigma)}, each depending on those before it",
        "Scale of the noise": ", ".join(f"{scale:g}" for scale in sorted(set(statement.sigma))) + f" {counts}",
        "Source of the noise": "the operating system's secure generator; no seed exists",
        "All releases about the data": statement.in_total,
    }
    if statement.answers:
        rows[f"Answers of one {unit}"] = f"at most {sum(statement.answers)} in {len(statement.answers)} releases"
    if counts == "votes":
        rows[f"Votes of one {unit}"] = f"at most {statement.votes_per_unit} in a release"
    table = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())]
    return ["\n".join(table), _POST_PROCESSING]


def _mechanisms(statement: PrivacyStatement) -> list[str]:
    asked = (
        "answers to public questions with discrete Gaussian noise: each record says which cell of each list it is "
        "in, and noise is added to each count"
    )
    voted = (
        "nearest-candidate votes with discrete Gaussian noise: each record votes for the candidate, or the few "
        "candidates, nearest to it in the embedding, and noise is added to each count"
    )
    rounds = len(statement.sigma) - len(statement.answers)
    return [asked] * bool(statement.answers) + [voted] * bool(rounds)


def _public(record: RunRecord, statement: PrivacyStatement) -> str:
    generator, embedder, selector = (_described(record.parts[name]) for name in ("generator", "embedder", "selector"))
    rounds = ("rounds", "samples", "initial", "scales", "copies", "keep", "votes_per_unit")
    names = ("samples", "answers") if record.plan.by_survey else rounds
    lines = [
        *([f"The number of {statement.unit}s in the private data."] if statement.neighbours == "replace" else []),
        "The names of the columns, the possible labels, and for a table the possible values of its columns.",
        "The settings: " + ", ".join(f"{name} {getattr(record.plan, name)}" for name in names) + ".",
        f"The generator with its prompts, assumed to be independent of the private data: `{generator}`",
    ]
    if not record.plan.by_survey:
        lines += [f"The embedder: `{embedder}`", f"The selection rule: `{selector}`"]
    if record.settings is not None:
        lines.append(f"The method: {method_in_words(record.settings)}")
    return "\n".join(f"- {line}" for line in lines)


def _described(part: str) -> str:
    text = " ".join(_ADDRESS.sub("...", part).replace("`", "'").split())
    return text if len(text) <= _LONGEST_DESCRIPTION else text[:_LONGEST_DESCRIPTION] + " ..."
