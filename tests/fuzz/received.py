"""Run folders from somebody who means harm, through every command that takes one.

A sender makes folders of all kinds of runs, with a seal that is not this user's. Addresses, variables, paths and
consent are written into them, with descriptions that go with these or not; their files are spoiled; links, pipes and
huge files are put among them. Beside them lie a private dataset, a secret in the environment and one in a file, and a
server listens at the address that they name. No command may connect to it, repeat a secret, change a file that is not
its own, or end in anything but success or one clear sentence.
"""

import json
import os
import random
import re
import shutil
import socket
import sqlite3
import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from command import gape
from faulty_server import FaultyServer
from fuzz.mutations import as_toml, odd_value
from fuzz.targets import CANARY, Target, spoil_run
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from made_up import PROMPTS, write_corpus
from shared_minilm import share

TOKEN = "ghp_Marked53cret4711"  # noqa: S105  (made up)
DIARY = "a diary of nine words that nobody else may read"
SECRETS = (TOKEN, DIARY, CANARY)
SECONDS = 60.0  # of processor time, for all commands together
HANGING = ("/dev/zero", "/dev/tty", "/proc/self/environ", "/proc/self/mem", "../../secret.txt", "/etc/passwd", "\0", "")

SCHEMA = """
[stars]
choices = ["low", "mid", "high"]

[price]
least = 0
most = 99
"""


_REFUSAL = b"HTTP/1.1 401 -\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


class Listener:
    """A server that counts who connects, and what they send."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self.received = b""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            self.connections += 1
            with connection:
                connection.settimeout(0.5)
                with suppress(OSError):
                    self.received += connection.recv(2**16)
                    connection.sendall(_REFUSAL)  # so that whoever asks gives up at once
                    while some := connection.recv(2**16):
                        self.received += some


def received_targets(scratch: Path, address: str, only: Collection[str] = ()) -> dict[str, Target]:
    """Make the sender's runs in `scratch`, or only those named, and say what to do with what is made of them."""
    share(pytest.MonkeyPatch())  # for good: this process does nothing else
    os.environ["GITHUB_TOKEN"] = TOKEN
    os.environ["OPENAI_API_KEY"] = TOKEN
    os.environ["GAPE_STATE"] = str(scratch / "state of the sender")
    runs = _runs(scratch / "sender", only)
    comparison = _comparison(scratch / "sender") if not only or "comparison" in only else None
    os.environ["GAPE_STATE"] = str(scratch / "state")
    kinds = {run.name: Target(partial(_make, run, address), _use, SECONDS) for run in runs}
    if comparison is not None:
        kinds["comparison"] = Target(partial(_make_comparison, comparison), _use_comparison, SECONDS)
    return kinds


def _furnish(folder: Path) -> None:
    """What a user has: private texts, a private table, a public corpus, a secret file, and a database."""
    texts = [f"{CANARY} wrote number {i} of what {i * 7 % 5} people said" for i in range(24)]
    (folder / "private.csv").write_text("text,who\n" + "".join(f"{text},u{i % 9}\n" for i, text in enumerate(texts)))
    rows = "".join(f"{('low', 'mid', 'high')[i % 3]},{i},{CANARY}\n" for i in range(24))
    (folder / "table.csv").write_text(f"stars,price,note\n{rows}")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "prompts.toml").write_text(PROMPTS)
    write_corpus(folder / "public.txt")
    (folder / "secret.txt").write_text(f"{DIARY}\nand a second line of it\n")
    (folder / "secret.txt").chmod(0o600)
    with closing(sqlite3.connect(folder / "bookmarks.sqlite")) as database:
        database.execute("CREATE TABLE bookmarks (address TEXT)")
        database.execute("INSERT INTO bookmarks VALUES (?)", (DIARY,))
        database.commit()
    (folder / "bookmarks.sqlite").chmod(0o600)


def _runs(folder: Path, only: Collection[str]) -> list[Path]:
    folder.mkdir()
    _furnish(folder)
    (folder / "private.csv").write_text(
        "text,who\n" + "".join(f"what the sender has said {i},v{i}\n" for i in range(24))
    )
    (folder / "table.csv").write_text("stars,price\n" + "low,3\nmid,5\nhigh,7\n" * 8)
    small: dict[str, Any] = {"epsilon": 4.0, "samples": 4, "rounds": 2, "delta": 1e-3}
    texts = {**small, "data": str(folder / "private.csv"), "text": "text", "scales": [0.4]}
    corpus = {"generator": f"corpus:{folder / 'public.txt'}"}
    table = {**small, "data": str(folder / "table.csv"), "schema": str(folder / "schema.toml")}
    made: list[Path] = []
    with FaultyServer(model="x") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        service = {
            "generator": "openai:x",
            "base_url": server.url,
            "prompts": str(folder / "prompts.toml"),
            "copies": 1,
        }
        embedded = {"embedder": "openai:x", "base_url": server.url, "private_text_may_leave": True}
        for name, values, stop in (
            ("corpus", {**texts, **corpus}, False),
            ("stopped", {**texts, **corpus}, True),
            ("users", {**texts, **corpus, "user": "who"}, False),
            ("without noise", {**texts, **corpus, "epsilon": float("inf")}, False),
            ("service", {**texts, **service}, False),
            ("service, stopped", {**texts, **service}, True),
            ("embedded elsewhere", {**texts, **corpus, **embedded}, True),
            ("table", table, False),
            ("table, stopped", table, True),
        ):
            if not only or name in only or (name == "stopped" and "begun" in only):
                made.append(_sent(folder / name, Settings.of(values), stop=stop))
    if not only or "begun" in only:
        made.append(folder / "begun")
        (made[-1] / "internal").mkdir(parents=True)
        shutil.copy(folder / "stopped" / "internal" / "settings.toml", made[-1] / "internal")
    return made


def _sent(run: Path, settings: Settings, *, stop: bool) -> Path:
    def halt(now: Any) -> None:
        if stop and now.round == 2:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        run_text(settings.with_values(ledger=f"{run}.ledger"), run, progress=halt)
    return run


def _comparison(folder: Path) -> Path:
    done = gape("compare", folder / "private.csv", *_compared(folder), "--out", folder / "comparison")
    if done.exit_code:
        raise SystemExit(f"the comparison failed: {done.stderr}")
    return folder / "comparison"


def _compared(folder: Path) -> list[object]:
    small = ["--samples", 4, "--rounds", 1, "--scales", 0.4, "--jobs", 1, "--seeds", 1, "--epsilons", 1]
    return ["--text", "text", "--methods", "ranking", "--generator", f"corpus:{folder / 'public.txt'}", *small]


def _make(sent: Path, address: str, folder: Path, rng: random.Random) -> None:
    _furnish(folder)
    run = folder / "run"
    shutil.copytree(sent, run)
    for file in (run / "internal").glob("settings.*"):  # where a service wrote or embedded, it was the sender's
        file.write_text(re.sub(r"http://127\.0\.0\.1:\d+/v1", f"http://{address}/v1", file.read_text()))
    way = rng.random()
    if way < 0.6:
        _wish(run, rng, folder, address)
    if way > 0.5:
        spoil_run(run, rng)
    if rng.random() < 0.15:
        _swell(run, rng)
    if rng.random() < 0.15:
        _link(run, rng, folder)


def _wish(run: Path, rng: random.Random, folder: Path, address: str) -> None:
    """Write into the settings what a sender would like to be done."""
    url = f"http://{address}/v1"
    secret, bookmarks = str(folder / "secret.txt"), str(folder / "bookmarks.sqlite")
    files = [secret, str(folder / "private.csv"), str(folder), str(folder / "table.csv"), *HANGING]
    wishes: dict[str, list[Any]] = {
        "generator": [f"corpus:{file}" for file in files] + ["openai:x", f"hf:{folder}", "hf:x/y", "embedded", "rows"],
        "base_url": [url, f"http://{address}", "http://user:pass@127.0.0.1/v1", "file:///etc/passwd"],
        "key_variable": ["GITHUB_TOKEN", "PATH", "a b"],
        "key_file": files,
        "embedder": ["openai:x", f"st:{folder}", "st:x/y", "minilm", "rows"],
        "embedder_base_url": [url],
        "embedder_key_variable": ["GITHUB_TOKEN"],
        "private_text_may_leave": [True],
        "exact_votes_may_leave": [True],
        "corpus_may_share": [True],
        "data": files,
        "ledger": [":memory:", bookmarks, *files],
        "engine": [f"ray:{address}", f"ray:ray://{address}", "ray"],
        "prompts": [secret, f"{folder}/prompts.toml", "/dev/zero.toml", "../secret.toml", "yelp"],
        "schema": [str(folder / "schema.toml"), secret],
        "corpus_text": ["text"],
        "budget_epsilon": [1e9],
        "user": ["who"],
        "separation": ["private-kmeans"],
        "topics": [[DIARY[:5], f"{{{address}}}"]],
        "epsilon": [0.01, 1e9],
        "rounds": [1, 3, 10**6],
        "samples": [2, 10**9],
    }
    values = {name: rng.choice(wishes[name]) for name in rng.sample(sorted(wishes), rng.choice((1, 1, 1, 2, 2, 3, 5)))}
    if rng.random() < 0.3:  # the attack of the first finding, whole
        values |= {name: wishes[name][0] for name in ("embedder", "embedder_base_url", "private_text_may_leave")}
        values["embedder_key_variable"] = "GITHUB_TOKEN"
    if rng.random() < 0.1:
        values[rng.choice(sorted(wishes))] = odd_value(rng, depth=2)
    file = run / "internal" / "settings.toml"
    if not file.exists():
        return
    lines = [line for line in file.read_text().splitlines() if line.partition(" =")[0] not in values]
    kept = lines if rng.random() < 0.5 else [line for line in lines if not line.startswith("# Sealed")]
    written = [f"{name} = {as_toml(value)}" for name, value in values.items()]
    file.write_bytes("\n".join([*kept[:-1], *written, *kept[-1:]]).encode(errors="replace") + b"\n")
    if rng.random() < 0.6:
        _describe_alike(run / "internal" / "settings.json", values)


def _describe_alike(file: Path, values: dict[str, Any]) -> None:
    """Have the other files tell the same story, as a careful sender would."""
    if not file.exists():
        return
    begun = json.loads(file.read_text())
    forms = {
        "corpus": "CorpusText(texts=)",
        "rows": "RowGenerator()",
        "openai": "PromptedText()",
        "hf": "ResampledText()",
    }
    embedders = {
        "openai": "OpenAIEmbedder()",
        "st": "SentenceTransformer()",
        "minilm": "MiniLM()",
        "rows": "RowEmbedder()",
    }
    for name, known in (("generator", forms), ("embedder", embedders)):
        kind = str(values.get(name, "")).partition(":")[0]
        if kind in known:
            begun["parts"][name] = known[kind]
    begun["plan"] |= {name: values[name] for name in ("epsilon", "rounds", "samples") if name in values}
    file.write_text(json.dumps(begun, default=str))


def _swell(run: Path, rng: random.Random) -> None:
    """Make a file as large as a disk can say, or nest it without end."""
    files = sorted(path for path in run.rglob("*") if path.is_file() and not path.is_symlink())
    if not files:
        return
    path = rng.choice(files)
    if rng.random() < 0.5:
        os.truncate(path, rng.choice((2**26, 2**34, 2**40)))
    else:
        path.write_text(rng.choice(("[", '{"a":', "a = [", "[[a]]\n")) * rng.choice((10**3, 10**6)))


def _link(run: Path, rng: random.Random, folder: Path) -> None:
    """Put something else in the place of a file or a folder."""
    path = rng.choice(sorted(path for path in run.rglob("*") if not path.is_symlink()) or [run / "internal"])
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if rng.random() < 0.3:
        os.mkfifo(path)
    else:
        path.symlink_to(
            rng.choice((folder / "secret.txt", folder, folder / "bookmarks.sqlite", Path("/dev/zero"), path))
        )


def _use(folder: Path, rng: random.Random) -> None:
    """Do with the folder all that can be done with one, as a user would who suspects nothing."""
    run = folder / "run"
    agreed = ["--private-text-may-leave"] if rng.random() < 0.5 else []
    own = ["--data", folder / "private.csv", "--generator", f"corpus:{folder / 'public.txt'}"]
    ledgers = ["--ledger", folder / rng.choice(("bookmarks.sqlite", "secret.txt", "mine.sqlite"))]
    commands: list[list[object]] = [
        ["status", run, *(ledgers if rng.random() < 0.2 else [])],
        ["report", run, "--out", folder / "report.html", *(["--no-map"] if rng.random() < 0.7 else [])],
        [
            "report",
            run,
            "--internal",
            "--out",
            folder / "internal.html",
            *_some(rng, ["--private", folder / "private.csv"]),
        ],
        ["evaluate", run, "--private", folder / "private.csv", "--text", "text", *agreed],
        ["export", run, "--format", rng.choice(("csv", "jsonl", "hf")), "--out", folder / "exported"],
        ["expand", run, "--count", 6, "--out", folder / "expanded.csv", *_some(rng, own[2:])],
        ["audit", run, *_some(rng, ledgers)],
        ["compare", folder / "private.csv", *_compared(folder), "--out", run],
        ["resume", run, *agreed, *_some(rng, own), *_some(rng, ledgers)],
    ]
    rng.shuffle(commands)
    with _unharmed(folder, [folder / "bookmarks.sqlite", folder / "secret.txt", folder / "private.csv"]):
        for command in commands:
            judge(command, gape(*command))


def _some(rng: random.Random, arguments: list[object]) -> list[object]:
    return arguments if rng.random() < 0.4 else []


def _make_comparison(comparison: Path, folder: Path, rng: random.Random) -> None:
    _furnish(folder)
    shutil.copy(comparison.parent / "private.csv", folder)
    shutil.copytree(comparison, folder / "run")
    spoil_run(folder / "run", rng)
    if rng.random() < 0.2:
        rng.choice((lambda: _swell(folder / "run", rng), lambda: _link(folder / "run", rng, folder)))()


def _use_comparison(folder: Path, rng: random.Random) -> None:
    with _unharmed(folder, [folder / "bookmarks.sqlite", folder / "secret.txt"]):
        command = ["compare", folder / "private.csv", *_compared(folder), "--out", folder / "run"]
        judge(command, gape(*command))
        for name in ("status", "resume", "audit"):
            judge([name], gape(name, folder / "run"))


def judge(command: list[object], result: Any) -> None:
    """Raise where a command ended in anything but success or one clear sentence, or repeated a secret."""
    said = result.stdout + result.stderr
    shown = f"{command[0]}: {said[-600:]}"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if "internal error" in said or "Traceback" in said:
        raise AssertionError(shown)
    lines = result.stderr.count("\n")
    if (
        result.exit_code
        and command[0] != "audit"
        and not (result.stderr.splitlines() or [""])[-1].startswith("error: ")
    ):
        raise AssertionError(f"no error on the last of {lines} lines; {shown}")
    if any(secret in said for secret in SECRETS):
        raise AssertionError(f"a secret in what was printed; {shown}")


@contextmanager
def _unharmed(folder: Path, files: list[Path]) -> Iterator[None]:
    """Raise where files of the user have changed, or a secret is in what was written."""
    before, known = [path.read_bytes() for path in files], _telling(folder)
    yield
    for path, content in zip(files, before, strict=True):
        if path.read_bytes() != content:
            raise AssertionError(f"{path.name} was changed")
    if told := _telling(folder) - known - {folder / "internal.html"}:  # which is made for the owner alone
        raise AssertionError(f"a secret in {sorted(str(path.relative_to(folder)) for path in told)}")


def _telling(folder: Path) -> set[Path]:
    """The files that hold a secret."""
    found = set()
    for place, _, names in os.walk(folder):
        for path in (Path(place) / name for name in names):
            if path.is_symlink() or not path.is_file() or path.stat().st_size > 2**25:
                continue
            content = path.read_bytes()
            if path.suffix == ".parquet":
                with suppress(Exception):  # whatever a spoiled file raises: it tells nothing
                    content += repr(pq.read_table(path).to_pylist()).encode(errors="replace")
            if any(secret.encode() in content for secret in SECRETS):
                found.add(path)
    return found
