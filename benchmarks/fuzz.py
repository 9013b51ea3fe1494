"""Fuzzing: corrupted files of every kind, each of which must be read or refused in one sentence.

python benchmarks/fuzz.py [--inputs 100000] [--seed 0] [--kinds CSV,parquet]
python benchmarks/fuzz.py received [--inputs 5500] [--seed 0] [--kinds table]

Valid files are corrupted in their bytes (flips, cuts, repeats, splices, wrong lengths) and in their content (other
types, missing keys, huge numbers, other encodings, links), and passed to the package's readers. A child process handles
thousands of inputs, with 10 seconds of CPU time for each and 1 GiB of memory beyond what it starts with; if it dies,
the next one continues after the input at fault. Only errors of gape.core.errors may be raised, in one line and without
private content. Inputs follow from the seed: `--seed 0 --kinds CSV --only 17` runs one of them and shows its error.

`received` passes malicious run folders to every command that takes one, next to secrets that must not be repeated and a
server that must not be contacted; see tests/fuzz/received.py.
"""

import argparse
import resource
import sys
import tempfile
from pathlib import Path

# The folder of the tests in place of this one, where a file hides the package of the same name.
sys.path[0] = str(Path(__file__).resolve().parents[1] / "tests")

from fuzz.received import Listener, received_targets  # noqa: E402
from fuzz.searching import VERDICTS, attempt, examine  # noqa: E402
from fuzz.targets import targets  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["files", "received"], default="files")
    parser.add_argument("--inputs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--only", type=int, default=None)
    chosen = parser.parse_args()
    memory = Path("/dev/shm")  # noqa: S108  (a fresh folder inside it)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        folder = Path(path)
        listener = Listener()
        received = chosen.what == "received"
        only = chosen.kinds.split(",") if chosen.kinds else []
        kinds = received_targets(folder, listener.address, only) if received else targets(folder)
        if only:
            kinds = {name: kinds[name] for name in only}
        if chosen.only is not None:
            (kind,) = kinds
            print(*attempt(kinds[kind], f"{chosen.seed} {kind} {chosen.only}", folder / "input"), sep="\n")
            return
        inputs = chosen.inputs or (5_500 if received else 100_000)
        counts, found = examine(kinds, chosen.seed, inputs, folder)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"| kind | inputs | {' | '.join(VERDICTS)} |")
    print("| --- " * (len(VERDICTS) + 2) + "|")
    for kind in [*kinds, "all"]:
        row = [sum(n for (k, v), n in counts.items() if kind in {k, "all"} and v == verdict) for verdict in VERDICTS]
        print(f"| {kind} | {sum(row)} | {' | '.join(map(str, row))} |")
    print(f"\n{used.ru_utime + used.ru_stime:.0f} s of processor time, at most {used.ru_maxrss >> 10} MiB resident")
    if received:
        print(f"{listener.connections} connections to the sender's server, {len(listener.received)} bytes received")
    for _, group in sorted(_by_place(found).items(), key=lambda each: -len(each[1])):
        print(f"\n{len(group)} like {group[0]}", file=sys.stderr)
    sys.exit(1 if found or listener.connections else 0)


def _by_place(found: list[str]) -> dict[str, list[str]]:
    """Group findings by where they occurred."""
    groups: dict[str, list[str]] = {}
    for each in found:
        frames = [part for part in each.split("\\n") if "/gape/" in part]
        groups.setdefault(frames[-1] if frames else each.split(":")[1], []).append(each)
    return groups


if __name__ == "__main__":
    main()
