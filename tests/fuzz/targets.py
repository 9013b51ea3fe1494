"""What is fuzzed: kinds of input, each with valid examples, ways to spoil them, and what the package does with them."""

import contextlib
import gzip
import io
import json
import random
import shutil
import sqlite3
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parts
from folders import LEDGER, PARTS, finished_folder, plan_for, statement_of
from fuzz.mutations import as_json, as_toml, odd_value, recode, spoil_bytes, spoil_value
from fuzz.pictures import use_images, write_images
from gape.evolution.plan import Plan
from gape.generators.prompts import load
from gape.language.request import Completion, Request
from gape.language.scripted import ScriptedModel
from gape.language.stored import Stored, stored_tokens
from gape.modalities import load_texts
from gape.modalities.arrow import samples_to_arrow
from gape.privacy.ledger import Budget, Ledger
from gape.report import write_report
from gape.runs.export import export
from gape.runs.folder.rounds import RunFolder
from gape.runs.folder.stored import SettingsFolder
from gape.runs.settings import Settings, settings_fields
from gape.runs.settings_file import read_toml

CANARY = "Quokka-55190"  # in every private cell; no message may repeat it
ROWS = [{"text": f"{CANARY} wrote this in row {i} of it", "label": f"l{i % 2}", "user": i % 3} for i in range(12)]
COLUMNS = ((None, None, None), ("text", None, None), ("text", "label", None), ("text", "label", "user"))


@dataclass(frozen=True)
class Target:
    """A kind of input. `make` writes the input of a seed into an empty folder, `use` does all that is done with it."""

    make: Callable[[Path, random.Random], None]
    use: Callable[[Path, random.Random], None]
    seconds: float = 10.0  # of processor time


def targets(scratch: Path) -> dict[str, Target]:
    """Make the valid examples in `scratch`, and say what there is to fuzz."""
    tables = [_parquet(ROWS), _parquet([]), _parquet(ROWS * 300)]
    runs = [_finished_run(scratch / "texts", texts=True), _finished_run(scratch / "vectors", texts=False)]
    return {
        "CSV": Target(_file(".csv", _csv_of), _load),
        "JSON lines": Target(_file(".jsonl", _json_lines_of), _load),
        "text": Target(_file(".txt", lambda rng: recode("\n".join(str(row["text"]) for row in ROWS), rng)), _load),
        "gzip": Target(_file(".csv.gz", _gzip_of), _load),
        "parquet": Target(_file(".parquet", lambda rng: _parquet_of(rng, tables)), _load),
        "arrow folder": Target(_arrow_folder, _load_folder),
        "images": Target(write_images, use_images),
        "settings": Target(_file(".toml", _settings_of), _use_settings),
        "prompts": Target(_file(".toml", _prompts_of), lambda folder, _: void(load(folder / "input.toml"))),
        "run folder": Target(lambda folder, rng: _spoiled_run(folder, rng, runs), _use_run),
        "ledger": Target(lambda folder, rng: _spoiled_ledger(folder, rng, scratch), _use_ledger),
        "answers": Target(lambda folder, rng: _spoiled_answers(folder, rng, scratch), _use_answers),
    }


def void(_: object) -> None:
    """Drop a value."""


def _file(suffix: str, content: Callable[[random.Random], bytes]) -> Callable[[Path, random.Random], None]:
    def make(folder: Path, rng: random.Random) -> None:
        made = content(rng)
        if rng.random() < 0.6:
            made = spoil_bytes(made, [content(rng)], rng)
        (folder / f"input{suffix}").write_bytes(made)

    return make


def _load(folder: Path, rng: random.Random) -> None:
    (path,) = folder.iterdir()
    load_texts(path, *rng.choice(COLUMNS))


def _load_folder(folder: Path, rng: random.Random) -> None:
    load_texts(folder, *rng.choice(COLUMNS))


def _csv_of(rng: random.Random) -> bytes:
    rows: list[list[str]] = [list(ROWS[0]), *([str(cell) for cell in row.values()] for row in ROWS)]
    for _ in range(rng.choice((0, 1, 2, 5))):
        row = rng.choice(rows)
        if row:
            row[rng.randrange(len(row))] = str(odd_value(rng))[:80_000]
        if rng.random() < 0.3:
            row.append("more")
        if rng.random() < 0.2:
            del row[0]
    quote = rng.choice(('"', '"', "", "'"))
    separator = rng.choice((",", ",", ",", ";", "\t"))
    lines = (separator.join(f"{quote}{cell}{quote}" for cell in row) for row in rows)
    return recode(rng.choice(("\n", "\r\n", "\r")).join(lines), rng)


def _json_lines_of(rng: random.Random) -> bytes:
    rows: list[Any] = list(ROWS)
    for _ in range(rng.choice((0, 1, 2, 5))):
        place = rng.randrange(len(rows))
        rows[place] = spoil_value(rows[place], rng)
    lines = [as_json(row) for row in rows]
    if rng.random() < 0.1:
        lines[rng.randrange(len(lines))] = rng.choice(("[", '{"a":')) * rng.choice((10, 1000, 50_000))
    return recode("\n".join(lines), rng)


def _gzip_of(rng: random.Random) -> bytes:
    content = _csv_of(rng)
    if rng.random() < 0.05:
        content = content + rng.choice((b"\n", b"a", b"0,1,2\n")) * rng.choice((10**6, 10**7))
    return gzip.compress(content, 1) * rng.choice((1, 1, 2))


def _parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    kinds = pa.schema([("text", pa.string()), ("label", pa.string()), ("user", pa.int64())])
    pq.write_table(pa.Table.from_pylist(list(rows), kinds), sink)
    return sink.getvalue()


def _odd_column(rng: random.Random, size: int) -> pa.Array:
    makers: tuple[Callable[[], pa.Array], ...] = (
        lambda: pa.array([None] * size),
        lambda: pa.array([f"{CANARY} {i}" for i in range(size)]).dictionary_encode(),
        lambda: pa.array([[f"{CANARY}"] * (i % 3) for i in range(size)]),
        lambda: pa.array([{"a": i, "b": [None]} for i in range(size)]),
        lambda: pa.array([b"\xff\xfe" * i for i in range(size)]),
        lambda: pa.array(range(size), type=pa.timestamp("ns")),
        lambda: pa.array([float("nan")] * size),
        lambda: pa.array(["\0"] * size, type=pa.large_string()),
        lambda: pa.array([i % 2 == 0 for i in range(size)]),
        lambda: pa.array(["x" * 200_000] * min(size, 20) + ["y"] * max(0, size - 20)),
        lambda: pa.StringArray.from_buffers(
            1, pa.py_buffer(np.array([0, 2], dtype=np.int32).tobytes()), pa.py_buffer(b"\xff\xff")
        ).take(pa.array([0] * size, type=pa.int64())),
    )
    return rng.choice(makers)()


def _odd_table(rng: random.Random) -> pa.Table:
    size = rng.choice((0, 1, 12, 3000))
    names = [
        rng.choice(("text", "label", "user", "text", "", f"{CANARY} " * 20, "c")) for _ in range(rng.choice((1, 3)))
    ]
    columns = [_odd_column(rng, size) for _ in names]
    return pa.Table.from_arrays(columns, names)


def _parquet_of(rng: random.Random, tables: Sequence[bytes]) -> bytes:
    if rng.random() < 0.6:
        return rng.choice(tables)
    sink = io.BytesIO()
    pq.write_table(_odd_table(rng), sink, compression=rng.choice(("none", "snappy", "zstd", "gzip")))
    return sink.getvalue()


def _arrow_folder(folder: Path, rng: random.Random) -> None:
    table = _odd_table(rng) if rng.random() < 0.4 else pa.Table.from_pylist(ROWS)
    sink = io.BytesIO()
    opened = pa.ipc.new_file(sink, table.schema) if rng.random() < 0.5 else pa.ipc.new_stream(sink, table.schema)
    with opened as writer:
        writer.write_table(table)
    content = sink.getvalue()
    state: Any = {"_data_files": [{"filename": "a.arrow"}]}
    if rng.random() < 0.7:
        content = spoil_bytes(content, [content], rng)
    else:
        state = spoil_value(state, rng)
    (folder / "a.arrow").write_bytes(content)
    if rng.random() < 0.6:
        (folder / "state.json").write_text(as_json(state))


def _settings_of(rng: random.Random) -> bytes:
    fields = settings_fields()
    values: dict[str, Any] = {"data": "reviews.csv", "epsilon": 1.0, "rounds": 3}
    for _ in range(rng.choice((1, 1, 2, 6))):
        values[rng.choice(fields).name] = odd_value(rng)
    if rng.random() < 0.1:
        values[str(rng.choice(("x", "ä" * 3000, "epsilonn", "data.text")))] = 1
    lines = [f"{json.dumps(key)} = {as_toml(value)}" for key, value in values.items()]
    endless = ("s = " + "[" * 20_000, "a = " + "{b = " * 5000, "x.y" * 3000 + " = 1", "[[a]]" * 50, "s = " + "9" * 5000)
    if rng.random() < 0.1:
        lines.append(rng.choice(endless))
    return recode("\n".join(lines) + "\n", rng)


_PROMPTS: dict[str, Any] = {
    "domain": "reviews",
    "words": 20,
    "random": ["Write one of {domain}."],
    "rephrase": ["Say {tone}: {sample}"],
    "rules": {"tone": ["briefly", "at length"]},
}


def _prompts_of(rng: random.Random) -> bytes:
    value: Any = spoil_value(_PROMPTS, rng) if rng.random() < 0.8 else _PROMPTS
    if not isinstance(value, dict):
        return recode(as_toml(value), rng)
    return recode("".join(f"{json.dumps(str(key))} = {as_toml(each)}\n" for key, each in value.items()), rng)


def _use_settings(folder: Path, _: random.Random) -> None:
    settings = Settings.of(read_toml(folder / "input.toml"))
    again = Settings.of(tomllib.loads(settings.as_toml()))
    if repr(again) != repr(settings):
        raise AssertionError("settings do not survive being written")


def _finished_run(path: Path, *, texts: bool) -> Path:
    """A run of two rounds, on disk as the package writes it."""
    size = 5
    samples: Any = (
        np.array([f"A text {i} <b>&amp;</b>" for i in range(size)], dtype=object)
        if texts
        else np.random.default_rng(0).normal(size=(size, 2)).astype(np.float32)
    )
    plan = plan_for(samples)
    finished_folder(path, samples, plan, statement_of(plan))
    if texts:
        values = {"data": "reviews.csv", "epsilon": 2.0, "samples": size, "rounds": 2, "scales": [0.5]}
        settings = Settings.of(values, {"generator": "corpus:public.txt"})
        SettingsFolder(path).write(settings)
        _write_answers(path / "internal" / "answers.sqlite")
    return path


def _spoiled_run(folder: Path, rng: random.Random, runs: Sequence[Path]) -> None:
    shutil.copytree(rng.choice(runs), folder / "run")
    spoil_run(folder / "run", rng)


def spoil_run(run: Path, rng: random.Random) -> None:
    """Spoil one of the files of a run, or two."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    for path in rng.sample(files, min(len(files), rng.choice((1, 1, 2)))):
        content = path.read_bytes()
        way = rng.randrange(10)
        if way == 0:
            path.unlink()
        elif way == 1:
            path.unlink()
            path.mkdir()
        elif way == 2:
            path.unlink()
            path.symlink_to(rng.choice((run.parent, rng.choice(files), Path("/etc/passwd"), path)))
        elif way >= 6 and path.suffix == ".json":
            path.write_text(as_json(spoil_value(json.loads(content), rng)))
        elif way >= 6 and path.suffix == ".toml":
            _spoil_toml(path, rng)
        elif way >= 6 and path.suffix == ".parquet":
            _spoil_table(path, rng)
        elif way >= 6 and path.suffix == ".sqlite":
            _spoil_database(path, rng)
        else:
            path.write_bytes(spoil_bytes(content, [other.read_bytes() for other in files if other.is_file()], rng))


def _spoil_toml(path: Path, rng: random.Random) -> None:
    """Write TOML that holds something else, if it is TOML yet."""
    with contextlib.suppress(ValueError):
        values = spoil_value(tomllib.loads(path.read_text()), rng)
        pairs = values.items() if isinstance(values, dict) else [("a", values)]
        text = "".join(f"{as_toml(str(key))} = {as_toml(value)}\n" for key, value in pairs)
        path.write_bytes(text.encode(errors="replace"))


def _spoil_table(path: Path, rng: random.Random) -> None:
    """Write a whole parquet file that holds something else."""
    table = pq.read_table(path)
    place = rng.randrange(table.num_columns)
    name = table.column_names[place]
    way = rng.randrange(6)
    if way == 0:
        table = table.drop_columns([name])
    elif way == 1:
        table = table.slice(0, rng.randrange(table.num_rows + 1))
    elif way == 2:
        table = pa.concat_tables([table, table])
    elif way == 3:
        table = table.set_column(place, name, _odd_column(rng, table.num_rows))
    elif way == 4:
        numbers = [rng.choice((-1, 0, 10**6, 2**62)) for _ in range(table.num_rows)]
        table = table.set_column(place, name, pa.array(numbers))
    else:
        vectors = np.full((table.num_rows, rng.choice((1, 2, 3))), rng.choice((np.nan, np.inf, 1e30)))
        table = table.set_column(place, name, samples_to_arrow(vectors))
    pq.write_table(table, path)


def _use_run(folder: Path, rng: random.Random) -> None:
    """Ask for everything that is read of a run; the first refusal ends it."""
    run = folder / "run"
    steps: list[Callable[[], object]] = [
        lambda: export(run, folder / "out.csv", "csv"),
        lambda: export(run, folder / "out", "hf"),
        lambda: write_report(run, folder / "report.html", with_map=not (run / "internal" / "settings.toml").exists()),
        lambda: SettingsFolder(run).status() if (run / "internal" / "settings.toml").exists() else None,
        lambda: _load_round(run),
    ]
    rng.shuffle(steps)
    for step in steps:
        step()


def _load_round(run: Path) -> None:
    plan = Plan(epsilon=2.0, delta=1e-5, rounds=2, samples=5, scales=(0.5,))
    found = RunFolder.find(run, plan, PARTS, LEDGER)
    with found.locked():
        found.load()


def _spoil_database(path: Path, rng: random.Random) -> None:
    """Change a database by statements, so that it stays one."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = rng.choice(tables)
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        column, value = rng.choice(columns), odd_value(rng, depth=3)
        value = value if isinstance(value, str | bytes | None) or abs(value) < 2**63 else rng.randbytes(7)
        value = value.encode(errors="replace").decode() if isinstance(value, str) else value
        where = f"rowid = {rng.randrange(1, 9)}"
        with contextlib.suppress(sqlite3.Error):
            way = rng.randrange(6)
            if way == 0:
                database.execute(f"DROP TABLE {table}")
            elif way == 1:
                database.execute(f"DELETE FROM {table} WHERE {where}")  # noqa: S608  (names of our own)
            elif way == 2:
                database.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
            elif way == 3:
                database.execute(f"PRAGMA user_version = {rng.choice((0, 2, 99))}")
            else:
                database.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))  # noqa: S608
        database.commit()


def _spoiled_ledger(folder: Path, rng: random.Random, scratch: Path) -> None:
    whole = scratch / "ledger"
    if not whole.exists():
        with contextlib.closing(Ledger(whole, Budget(9.0, 1e-5))) as ledger:
            ledger.bind(lambda salt: "f", "record")
            for turn in (1, 2, 3):
                ledger.charge("r", turn, "c", parts.PLAN.release, np.arange(4, dtype=np.int64), secure=True)
    path = folder / "ledger"
    shutil.copy(whole, path)
    if rng.random() < 0.5:
        _spoil_database(path, rng)
    else:
        path.write_bytes(spoil_bytes(path.read_bytes(), [whole.read_bytes()], rng))


def _use_ledger(folder: Path, _: random.Random) -> None:
    with contextlib.closing(Ledger(folder / "ledger")) as ledger:
        ledger.require("r", (parts.PLAN.release,) * 4)
        ledger.bind(lambda salt: "f", "record")
        ledger.secure("r")
        ledger.stored("r", 1, "c")
        ledger.charge("r", 4, "c", parts.PLAN.release, np.arange(4, dtype=np.int64), secure=True)


def _write_answers(path: Path) -> None:
    with contextlib.closing(Stored(ScriptedModel(lambda request: request.prompt), path)) as stored:
        list(stored.complete([Request(f"prompt {i}") for i in range(6)]))


def _spoiled_answers(folder: Path, rng: random.Random, scratch: Path) -> None:
    whole = scratch / "answers.sqlite"
    if not whole.exists():
        _write_answers(whole)
    path = folder / "answers.sqlite"
    shutil.copy(whole, path)
    if rng.random() < 0.5:
        _spoil_database(path, rng)
    else:
        path.write_bytes(spoil_bytes(path.read_bytes(), [whole.read_bytes()], rng))


def _use_answers(folder: Path, _: random.Random) -> None:
    path = folder / "answers.sqlite"
    stored_tokens(path)
    with contextlib.closing(Stored(ScriptedModel(lambda request: request.prompt), path)) as stored:
        answers = [completion for _, completion in stored.complete([Request(f"prompt {i}") for i in range(8)])]
    if not all(isinstance(each, Completion) and isinstance(each.text, str) for each in answers):
        raise AssertionError("an answer that is no text")
