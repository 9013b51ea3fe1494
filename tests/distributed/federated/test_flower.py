"""A SuperLink and eight SuperNodes as real processes: devices fail, one by kill -9, and the run goes on.

Flower needs older versions of typer and rich than the command line is tested with, so where it is not installed it
gets an environment of its own, by its lock, on top of this one.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from environments import with_extras
from gape._support.files import read_json, read_table
from gape.core.types import Counts, Points
from gape.distributed.federated import Terms
from gape.modalities.arrow import samples_from_arrow
from gape.voting.nearest import nearest_votes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "federated"
DRILL = Path(__file__).parent / "drill"
DEVICES = 8
KILLED, UNRELIABLE = 7, 6
STEP_SECONDS = 75.0  # generous: a device starts a process for every step, and eight share two cores
RUN_SECONDS = 1500.0


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with Flower's commands."""
    if importlib.util.find_spec("flwr") is not None:
        return Path(sys.executable).parent
    return with_extras(tmp_path_factory.mktemp("flower") / "venv")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.2)


@dataclass
class Federation:
    """A SuperLink and its SuperNodes on loopback, each a process group of its own."""

    commands: Path
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.port = free_port()
        self.environment = os.environ | {
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{self.commands}:{os.environ['PATH']}",
        }

    def start(self) -> None:
        home = self.folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        self._spawn("link", "flower-superlink", "--port", self.port, "--disable-runtime-dependency-installation")
        until(self._listens, 120, "the SuperLink")
        rng = np.random.default_rng(1)
        for device in range(DEVICES):
            (self.folder / str(device)).mkdir()
            np.save(self.folder / str(device) / "records.npy", rng.normal(size=(3, 2)).astype(np.float32))
            self._spawn(
                str(device),
                *("flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--port", free_port()),
                *("--node-config", f'folder="{self.folder / str(device)}"'),
            )
        (self.folder / str(UNRELIABLE) / "may-fail").touch()

    def run(self, app: Path, **config: str | bool | float) -> None:
        words = {True: "true", False: "false"}
        values = " ".join(
            f"{name.replace('_', '-')}=" + (words[value] if isinstance(value, bool) else repr(value).replace("'", '"'))
            for name, value in config.items()
        )
        subprocess.run(
            [self.commands / "flwr", "run", app, "here", "--run-config", values],
            check=True,
            env=self.environment,
            cwd=self.folder,
        )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def log(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))

    def _spawn(self, name: str, command: str, *arguments: object) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [str(self.commands / command), "--insecure", *map(str, arguments)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def _listens(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0


@dataclass
class Outcome:
    folder: Path
    terms: Terms

    def counted(self, run: str, turn: int) -> list[int]:
        """The devices whose ballots are in the sum of a round."""
        nodes = {(self.folder / str(device) / "node").read_text(): device for device in range(DEVICES)}
        return sorted(nodes[node] for node in read_json(self.folder / run / "counted.json")[str(turn)])

    def votes(self, devices: list[int], candidates: Points, turn: int) -> Counts:
        """Count exactly, as only a test can: in round t each device speaks through its t-th record."""
        records = [np.load(self.folder / str(device) / "records.npy")[(turn - 1) % 3] for device in devices]
        return nearest_votes(np.stack(records), candidates)


@pytest.fixture(scope="module")
def outcome(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One session without noise, in which a device is killed, then the example's run without that device."""
    folder = tmp_path_factory.mktemp("federation")
    app = folder / "app"
    shutil.copytree(EXAMPLE, app)
    package = app / "votes_from_devices"
    for name in ("client_app.py", "server_app.py"):
        (package / name).rename(package / f"example_{name}")
    for part in DRILL.glob("*.py"):
        shutil.copy(part, package)
    settings = (app / "pyproject.toml").read_text() + '\nexact = false\nfailing = ""\nwait-for = 8\n'
    (app / "pyproject.toml").write_text(settings)

    federation = Federation(commands, folder)
    try:
        federation.start()
        exact, noisy = folder / "exact", folder / "noisy"
        federation.run(
            app, folder=str(exact), timeout=STEP_SECONDS, exact=True, failing="1:poll:silent", wait_for=DEVICES
        )
        until((exact / "about-to-poll").exists, RUN_SECONDS, "all devices to deal their shares")
        federation.kill(str(KILLED))
        (exact / "go-on").touch()
        until((exact / "done").exists, RUN_SECONDS, "the session without noise")
        noisy.mkdir()
        (noisy / "go-on").touch()
        federation.run(
            app,
            folder=str(noisy),
            timeout=STEP_SECONDS,
            exact=False,
            failing="1:tally:silent 2:roster:error",
            wait_for=DEVICES - 1,
        )
        until((noisy / "done").exists, RUN_SECONDS, "the run of two rounds")
    except BaseException:
        print(federation.log())  # noqa: T201  (nothing else says why)
        raise
    finally:
        for name in list(federation.processes):
            federation.kill(name)
    terms: dict[str, Terms] = {}
    exec((EXAMPLE / "votes_from_devices" / "agreement.py").read_text(), terms)  # noqa: S102  (it is ours)
    return Outcome(folder, terms["TERMS"])


def test_the_sum_of_those_who_stay_is_exact(outcome: Outcome) -> None:
    assert outcome.counted("exact", 1) == [device for device in range(DEVICES) if device not in {KILLED, UNRELIABLE}]
    with np.load(outcome.folder / "exact" / "exact.npz") as found:
        expected = outcome.votes(outcome.counted("exact", 1), found["candidates"], 1)
        assert np.array_equal(found["votes"], expected)


def test_the_run_ends_though_two_devices_fail_in_every_round(outcome: Outcome) -> None:
    published = outcome.folder / "noisy" / "run" / "release"
    statement = read_json(published / "privacy.json")
    assert statement["private"]
    assert statement["epsilon"] <= 2.0
    assert statement["unit"] == "user"
    assert statement["sigma"] == [outcome.terms.sigma] * 2
    assert len(samples_from_arrow(read_table(published / "synthetic.parquet")["sample"])) > 0
    assert outcome.counted("noisy", 1) == [device for device in range(DEVICES) if device != KILLED]
    assert outcome.counted("noisy", 2) == [device for device in range(DEVICES) if device not in {KILLED, UNRELIABLE}]


def test_a_device_that_fails_tells_the_server_nothing_private(outcome: Outcome) -> None:
    reasons = read_json(outcome.folder / "noisy" / "failures.json")
    assert sum("the device failed with RuntimeError" in reason for reason in reasons) == 1
    assert not any("private words" in reason for reason in reasons)
    assert "private words" not in (outcome.folder / "link.log").read_text()
    assert "private words" in (outcome.folder / f"{UNRELIABLE}.log").read_text()  # its own log does say more


def test_what_the_server_receives_is_uniform(outcome: Outcome) -> None:
    ballots = [np.load(path) for path in sorted(outcome.folder.glob("*/ballots-*.npy"))]
    assert [len(each) for each in ballots] == [6, 7, 6]
    words = np.concatenate([each.ravel() for each in ballots])
    assert len(words) > 6 * 300 + 7 * 200
    for shift in (0, 8, 16, 24):
        observed = np.bincount((words >> np.uint32(shift)) & np.uint32(255), minlength=256)
        assert stats.chisquare(observed).pvalue > 1e-4
    assert stats.kstest(words / 2.0**32, "uniform").pvalue > 1e-4


def test_the_noise_is_what_is_accounted_for(outcome: Outcome) -> None:
    scores = []
    for turn in (1, 2):
        folder = outcome.folder / "noisy" / "run" / "internal" / "rounds" / f"{turn:03d}"
        candidates = samples_from_arrow(read_table(folder / "candidates.parquet")["sample"])
        noisy = read_table(folder / "votes.parquet")["noisy_votes"].to_numpy()
        counted = outcome.counted("noisy", turn)
        noise = noisy - outcome.votes(counted, candidates, turn)
        assert outcome.terms.noise_with(len(counted)) >= outcome.terms.sigma
        scores.append(noise / outcome.terms.noise_with(len(counted)))
    drawn = np.concatenate(scores)
    assert len(drawn) > 200  # of the first round; how many candidates the second has is chance
    law = stats.chi2(len(drawn))
    assert law.ppf(1e-4) < float((drawn**2).sum()) < law.ppf(1 - 1e-4)
