"""The search for input that breaks something: children try, a parent counts, and goes on where a child dies."""

import os
import random
import resource
import select
import shutil
import signal
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from fuzz.targets import CANARY, Target
from gape.core.errors import GapeError

MEMORY = 2**30
SILENCE = 120  # seconds by the clock after which a child is held to hang where no signal reaches it
LONGEST = 800  # characters of a sentence
Counts: TypeAlias = Counter[tuple[str, str]]
VERDICTS = ("accepted", "refused", "tracebacks", "hangs", "over memory", "killed", "unclear")


class _TooLongError(BaseException):
    """The time of one input is over."""


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise _TooLongError


def attempt(target: Target, seed: str, folder: Path) -> tuple[str, str]:
    """Make the input of a seed, use it, and say what came of it; with what was said."""
    rng = random.Random(seed)  # noqa: S311  (inputs that can be repeated)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    target.make(folder, rng)
    signal.signal(signal.SIGVTALRM, _too_long)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, target.seconds)
        target.use(folder, rng)
    except GapeError as error:
        said = str(error)
        clear = "\n" not in said and len(said) <= LONGEST and CANARY not in said
        return ("refused" if clear else "unclear"), f"{len(said)} characters: {said[:300]}"
    except _TooLongError:
        return "hangs", traceback.format_exc()
    except MemoryError:
        return "over memory", traceback.format_exc()
    except Exception:  # noqa: BLE001  (what the search is for)
        return "tracebacks", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return "accepted", ""


def work(kinds: dict[str, Target], seed: int, numbers: range, folder: Path, out: int) -> None:
    """Be the child: tell of every input when it begins and when it has ended."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    names = list(kinds)
    for number in numbers:
        kind = names[number % len(names)]
        verdict, said = attempt(kinds[kind], f"{seed} {kind} {number}", folder / "input")
        line = f"{number}\t{verdict}\t{said[-1500:]!r}\n"
        os.write(out, line.encode(errors="replace"))


def examine(kinds: dict[str, Target], seed: int, inputs: int, folder: Path) -> tuple[Counts, list[str]]:
    """Give all inputs to children, one child after another; returns verdicts by kind, and what was found."""
    counts: Counts = Counter()
    found: list[str] = []
    names, following = list(kinds), 0
    while following < inputs:
        source, sink = os.pipe()
        child = os.fork()
        if not child:
            try:
                work(kinds, seed, range(following, inputs), folder, sink)
            finally:
                os._exit(1)
        os.close(sink)
        rest, last = b"", time.monotonic()
        while True:
            if not select.select([source], [], [], 1)[0]:
                if time.monotonic() - last > SILENCE:
                    os.kill(child, signal.SIGKILL)
                continue
            part = os.read(source, 2**16)
            if not part:
                break
            last = time.monotonic()
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                number, verdict, said = line.decode(errors="replace").split("\t", 2)
                following = int(number) + 1
                kind = names[int(number) % len(names)]
                counts[kind, verdict] += 1
                if verdict not in {"accepted", "refused"}:
                    found.append(f"{kind} {number}: {verdict}: {said}")
        os.close(source)
        _, status = os.waitpid(child, 0)
        if following < inputs:
            if not os.WIFSIGNALED(status):
                raise SystemExit(f"the search itself failed at input {following}")
            kind = names[following % len(names)]
            verdict = "hangs" if os.WTERMSIG(status) == signal.SIGKILL else "killed"
            counts[kind, verdict] += 1
            found.append(f"{kind} {following}: {verdict} by signal {os.WTERMSIG(status)}")
            following += 1
    return counts, found
