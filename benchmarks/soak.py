"""A soak test: runs of hundreds of rounds that are killed again and again, with a service that fails and recovers.

python benchmarks/soak.py [--runs vectors,texts] [--vectors 300] [--texts 150] [--long 300] [--seed 0]

Each run is a separate process, for texts the command `gape`, with an HTTP service on the loopback. Parts:

- killed: the process is killed (SIGKILL) at a random time and restarted, until the run has ended;
- undisturbed: one process repeats the same run from its settings and its ledger. It finds the noise in the ledger if it
  requests it with the same candidates in every round, and must publish the same samples;
- in one process: another run of hundreds of rounds, uninterrupted, whose memory and handles must not grow.

Resident memory, open handles and threads are read from /proc twenty times a second.
"""

import argparse
import contextlib
import itertools
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# The folder of the tests in place of this one, which has files of the same names.
sys.path[0] = str(ROOT / "tests")
sys.path.append(str(ROOT))

from benchmarks.faults import places, published  # noqa: E402

import faulty_server  # noqa: E402
from faulty_server import PASSING, FaultyServer  # noqa: E402
from gape._support.files import read_table  # noqa: E402
from gape.audit.books import audit_run  # noqa: E402
from gape.embedders.identity import IdentityEmbedder  # noqa: E402
from gape.evolution.plan import Plan  # noqa: E402
from gape.generators.vectors import GaussianGenerator, StartFromBox  # noqa: E402
from gape.language.request import Request  # noqa: E402
from gape.privacy.ledger import Budget, Ledger  # noqa: E402
from gape.runs.folder.stored import LEDGER_SUFFIX  # noqa: E402
from gape.runs.run import run  # noqa: E402
from gape.selection.local_search import Gape  # noqa: E402
from gape.voting.electorate import LocalElectorate  # noqa: E402
from generators.writing import write  # noqa: E402
from made_up import private_rows, write_csv  # noqa: E402

PERIOD = 0.05  # seconds between two looks at a process
# How ill the service is, one after the other: the share of requests that fail, and the seconds before every answer.
WEATHER = ((0.0, 0.0), (0.1, 0.0), (0.3, 0.02), (0.5, 0.05), (0.0, 0.0), (0.0, 0.3), (0.5, 0.0), (0.05, 0.1))
WEATHER_SECONDS = 4.0
# A process is killed within so many seconds of what it is seen to do: it starts, takes the lock of its folder, or has
# done a round. The last is for half of the lives, so that the run gets on however busy the machine is.
SECONDS = {"start": 2.0, "lock": 2.0}
SECONDS_AFTER_ROUND = {"vectors": 3.5, "texts": 7.0}
EVENTS = ("start", "lock", "round", "round")
GROWTH_ALLOWED = 0.05  # of memory: embeddings of public texts are remembered, up to a number
PROMPTS = """
domain = "short reports"
words = 16
random = ["Write one of {domain}."]
rephrase = ["Say it in other words: {sample}"]
"""
DIMENSION, RECORDS, SAMPLES = 32, 20_000, 40


@dataclass(frozen=True)
class Load:
    """A run with its number of rounds, how its process is started in a folder, and where its ledger is."""

    rounds: int
    samples: int
    command: Callable[[Path, Path], list[str]]  # of the folder of the data, and that of the run
    ledger: Callable[[Path], Path]
    prepare: Callable[[Path], object] = lambda _: None


@dataclass(frozen=True)
class Look:
    """The state of a process at one time."""

    round: int  # those that are done
    resident: float  # MiB
    handles: int
    threads: int


@dataclass
class Life:
    """The history of one process."""

    killed: bool
    code: int
    looks: list[Look]
    said: str


@dataclass
class Tally:
    """The outcome of a run that was killed until it ended."""

    kills: int = 0
    early: int = 0  # of those, while the process started
    stopped: int = 0  # lives that ended by themselves with one sentence
    wrong: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)


def vectors_in(folder: Path, run_folder: Path, rounds: int) -> None:
    """The run on vectors: the body of its process."""
    plan = Plan(epsilon=8.0, delta=1e-5, rounds=rounds, samples=SAMPLES, scales=(0.3, 0.1, 0.03), copies=2, seed=1)
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(SAMPLES, DIMENSION))
    private = centres[rng.integers(0, SAMPLES, RECORDS)] + 0.1 * rng.standard_normal((RECORDS, DIMENSION))
    edge = (2.0,) * DIMENSION
    generator = GaussianGenerator.isotropic(StartFromBox(tuple(-x for x in edge), edge), DIMENSION)
    electorate = LocalElectorate(private.astype(np.float32))
    with contextlib.closing(Ledger(folder / "ledger", Budget(plan.epsilon, plan.delta))) as ledger:
        select = Gape.paper(separation=3.0, threshold=0.0)
        run(run_folder, plan, generator, IdentityEmbedder(), electorate, select, ledger)


def vectors(rounds: int) -> Load:
    def command(folder: Path, run_folder: Path) -> list[str]:
        return [sys.executable, __file__, "--child", str(folder), str(run_folder), "--vectors", str(rounds)]

    return Load(rounds, SAMPLES, command, lambda folder: folder / "ledger")


def texts(rounds: int, url: str) -> Load:
    def command(folder: Path, run_folder: Path) -> list[str]:
        gape = [sys.executable, "-c", "from gape.cli import main; main()"]
        if (run_folder / "internal" / "settings.toml").exists():
            return [*gape, "resume", str(run_folder)]
        what = ["--text", "review", "--epsilon", "8", "--samples", "6", "--rounds", str(rounds), "--copies", "2"]
        service = ["--generator", "openai:tiny", "--base-url", url, "--timeout", "1"]
        prompts = ["--prompts", str(folder / "prompts.toml"), "--out", str(run_folder)]
        return [*gape, "run", str(folder / "reviews.csv"), *what, *service, *prompts]

    def prepare(folder: Path) -> None:
        write_csv(folder / "reviews.csv", private_rows(200))
        (folder / "prompts.toml").write_text(PROMPTS)

    return Load(rounds, 6, command, lambda folder: folder / f"reviews.csv{LEDGER_SUFFIX}", prepare)


@contextlib.contextmanager
def service(seed: int) -> Iterator[FaultyServer]:
    """Serve whole sentences, with and without faults in turn."""
    faulty_server.answer_to = lambda prompt, seed: write(Request(prompt, seed=seed))
    over = threading.Event()
    with FaultyServer(faults=PASSING, rate=0.0, seed=seed, hang=1.5, relents=5) as server:

        def change() -> None:
            for server.rate, server.delay in itertools.cycle(WEATHER):
                if over.wait(WEATHER_SECONDS):
                    return

        thread = threading.Thread(target=change)
        thread.start()
        try:
            yield server
        finally:
            over.set()
            thread.join()


def look_at(process: int, run_folder: Path) -> Look | None:
    """Read the resources of a process; None if it has ended."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
        handles = len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208  (names alone, twenty times a second)
        resident, threads = int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"])
    except (OSError, LookupError):
        return None
    return Look(rounds_done(run_folder), resident, handles, threads)


def rounds_done(run_folder: Path) -> int:
    return max(0, sum(1 for _ in (run_folder / "internal" / "rounds").glob("*/synthetic.parquet")) - 1)


@dataclass(frozen=True)
class Kill:
    """When to kill a process: a number of seconds after an observed event."""

    event: str
    seconds: float

    def mark(self, run_folder: Path) -> int:
        """Return what changes with the event."""
        lock = run_folder / "internal" / "lock"
        if self.event == "lock":
            return lock.stat().st_mtime_ns if lock.exists() else 0
        return rounds_done(run_folder)


def live(load: Load, folder: Path, run_folder: Path, kill: Kill | None = None) -> Life:
    """Start the process of a run and watch it until it ends or is killed."""
    log = folder / "said.txt"
    looks: list[Look] = []
    killed = False
    before = kill.mark(run_folder) if kill else 0
    with log.open("w") as said:
        process = subprocess.Popen(load.command(folder, run_folder), stdout=said, stderr=said)  # noqa: S603  (ours)
        since = time.monotonic() if kill and kill.event == "start" else None
        try:
            while process.poll() is None:
                if kill and since is None and kill.mark(run_folder) != before:
                    since = time.monotonic()
                left = PERIOD
                if kill and since is not None:
                    left = min(PERIOD, since + kill.seconds - time.monotonic())
                if left <= 0:
                    process.kill()
                    killed = process.wait() < 0
                    break
                if look := look_at(process.pid, run_folder):
                    looks.append(look)
                time.sleep(left)
        finally:
            process.kill()
            process.wait()
    return Life(killed, process.returncode, looks, log.read_text())


def what_is_wrong(life: Life) -> str:
    """Return output that no user should see, if there was any."""
    for sign in ("Traceback", "internal error", "Warning", "Exception ignored"):
        if sign in life.said:
            return life.said[-2000:]
    errors = [line for line in life.said.splitlines() if line.startswith("error: ")]
    if life.killed or life.code == 0:
        return f"an error and code {life.code}: {errors[0]}" if errors else ""
    return "" if life.code == 1 and len(errors) == 1 else f"code {life.code}: {life.said[-2000:]}"


def released(load: Load, folder: Path) -> int:
    path = load.ledger(folder)
    if not path.exists() or not path.stat().st_size:
        return 0
    with contextlib.closing(Ledger(path, Budget(8.0, 1e-5), keep=True)) as ledger:
        return len(ledger.releases())


def kill_until_it_ends(load: Load, folder: Path, after_round: float, rng: random.Random) -> Tally:
    tally, run_folder = Tally(), folder / "run"
    while True:
        event = rng.choice(EVENTS)
        kill = Kill(event, rng.uniform(0.0, after_round if event == "round" else SECONDS[event]))
        life = live(load, folder, run_folder, kill)
        tally.kills += life.killed
        tally.early += life.killed and event == "start"
        tally.stopped += not life.killed and life.code != 0
        tally.looks += life.looks
        if wrong := what_is_wrong(life):
            tally.wrong.append(wrong)
        ahead = released(load, folder) - rounds_done(run_folder)
        if ahead not in {0, 1}:  # a release is charged before its round is done, and no other is before that
            tally.wrong.append(f"the ledger is {ahead} rounds ahead of the run")
        if not life.killed and life.code == 0:
            return tally
        if len(tally.wrong) > 9 or tally.kills > 60 * load.rounds:
            raise SystemExit(f"the run does not end after {tally.kills} kills: {tally.wrong[:1]} {life.said[-2000:]}")


def final_wrongs(load: Load, folder: Path, run_folder: Path) -> list[str]:
    """Return what is wrong after the end of a run."""
    rounds = run_folder / "internal" / "rounds"
    audit = audit_run(run_folder, load.ledger(folder))
    charged = (audit.releases, released(load, folder))
    complete = sorted(int(each.parent.name) for each in rounds.glob("*/synthetic.parquet"))
    samples = samples_of(run_folder)
    found = {
        f"{charged} releases charged": charged != (load.rounds, load.rounds),
        audit.text(): not audit.passed,
        f"{len(complete)} rounds": complete != list(range(load.rounds + 1)),
        f"{samples} samples": samples != load.samples,
        "unfinished files": any(folder.rglob("*.tmp")),
    }
    return [said for said, wrong in found.items() if wrong]


def samples_of(run_folder: Path) -> int:
    return len(read_table(run_folder / "release" / "synthetic.parquet"))


def once_more(load: Load, folder: Path, run_folder: Path) -> Life:
    """Repeat a run from its settings and its ledger, undisturbed."""
    again = folder / "again" / "internal"
    again.mkdir(mode=0o700, parents=True)
    for each in (run_folder / "internal").glob("settings.*"):
        shutil.copy(each, again)
    return live(load, folder, again.parent)


def in_quarter(looks: list[Look], rounds: int, quarter: int) -> tuple[float, float, float, int]:
    """Return medians of resident MiB, handles and threads in a quarter of the rounds, and the fewest handles.

    Connections come and go; handles that are never closed are in every reading, and so in the fewest.
    """
    own = [each for each in looks if rounds * (quarter - 1) / 4 <= each.round < rounds * quarter / 4]
    if not own:
        raise SystemExit(f"no look at the process in quarter {quarter} of its rounds; give it more of them")
    resident, handles, threads = zip(*((each.resident, each.handles, each.threads) for each in own), strict=True)
    return statistics.median(resident), statistics.median(handles), statistics.median(threads), min(handles)


def table(row: dict[str, object]) -> None:
    """Print a table of one row."""
    for cells in (row, ["---"] * len(row), row.values()):
        print("| " + " | ".join(map(str, cells)) + " |")
    print(flush=True)


def soak_killed(name: str, load: Load, folder: Path, rng: random.Random, faults: Callable[[], int]) -> list[str]:
    load.prepare(folder)
    before, begun = faults(), time.monotonic()
    tally = kill_until_it_ends(load, folder, SECONDS_AFTER_ROUND[name], rng)
    seconds, failed = time.monotonic() - begun, faults() - before
    wrong = [*tally.wrong, *final_wrongs(load, folder, folder / "run")]
    again = once_more(load, folder, folder / "run")
    same = again.code == 0 and published(folder / "run") == published(folder / "again")
    if not same:
        wrong.append(f"not the same as undisturbed: {again.said[-2000:]}")
    wrong += final_wrongs(load, folder, folder / "again")
    most = {each: max(getattr(look, each) for look in tally.looks) for each in ("resident", "handles", "threads")}
    table(
        {
            "killed": name,
            "rounds": load.rounds,
            "kills": tally.kills,
            "while starting": tally.early,
            "stopped with one sentence": tally.stopped,
            "failed requests": failed,
            "charged": released(load, folder),
            "samples": samples_of(folder / "run"),
            "unfinished files": len(list(folder.rglob("*.tmp"))),
            "same as undisturbed": "yes" if same else "no",
            "wrong": len(wrong),
            "most MiB": f"{most['resident']:.0f}",
            "most handles": most["handles"],
            "most threads": most["threads"],
            "seconds": f"{seconds:.0f}",
        }
    )
    return wrong


def soak_whole(name: str, load: Load, folder: Path, faults: Callable[[], int]) -> list[str]:
    load.prepare(folder)
    before, begun = faults(), time.monotonic()
    life = live(load, folder, folder / "run")
    seconds = time.monotonic() - begun
    wrong = [each for each in [what_is_wrong(life)] if each]
    wrong += final_wrongs(load, folder, folder / "run")
    second, last = (in_quarter(life.looks, load.rounds, quarter) for quarter in (2, 4))
    # From the middle of one quarter to the middle of the other.
    growth = (last[0] - second[0]) * 1024 / (load.rounds / 2)
    if last[0] > (1 + GROWTH_ALLOWED) * second[0]:
        wrong.append(f"memory grows by {growth:.0f} KiB a round")
    if last[3] > second[3] + 1 or last[2] > second[2] + 4:
        wrong.append(f"handles and threads grow from {second[1:]} to {last[1:]}")
    table(
        {
            "in one process": name,
            "rounds": load.rounds,
            "failed requests": faults() - before,
            "looks": len(life.looks),
            "MiB, 2nd quarter": f"{second[0]:.1f}",
            "MiB, last": f"{last[0]:.1f}",
            "KiB a round": f"{growth:.1f}",
            "handles, 2nd quarter": f"{second[1]:g}",
            "handles, last": f"{last[1]:g}",
            "threads, 2nd quarter": f"{second[2]:g}",
            "threads, last": f"{last[2]:g}",
            "wrong": len(wrong),
            "seconds": f"{seconds:.0f}",
        }
    )
    return wrong


def soak(name: str, rounds: int, long: int, seed: int) -> list[str]:
    """Put a run under load; returns what was wrong."""
    rng = random.Random(seed)  # noqa: S311  (when to kill)
    with places() as folder, service(seed) as server:
        for part in ("killed", "whole"):
            (folder / part).mkdir()
        of = vectors if name == "vectors" else lambda rounds: texts(rounds, server.url)

        def faults() -> int:
            return sum(server.failed.values())

        wrong = soak_killed(name, of(rounds), folder / "killed", rng, faults)
        return [*wrong, *(soak_whole(name, of(long), folder / "whole", faults) if long else [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="vectors,texts")
    parser.add_argument("--vectors", type=int, default=300, help="rounds")
    parser.add_argument("--texts", type=int, default=150, help="rounds")
    parser.add_argument("--long", type=int, default=300, help="rounds in one process; 0 for none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        folder, run_folder = chosen.child
        vectors_in(folder, run_folder, chosen.vectors)
        return
    wrong = []
    for name in chosen.runs.split(","):
        wrong += soak(name, getattr(chosen, name), chosen.long, chosen.seed)
    for each in wrong:
        print(each, file=sys.stderr)
    sys.exit(min(len(wrong), 1))


if __name__ == "__main__":
    main()
