"""Several runs on one GPU: whether all of them finish, how fast, and the peak memory of each.

python benchmarks/shared_gpu.py MODEL [--embedder minilm] [--runs 1 2 4] [--samples 500] [--rounds 2]

MODEL is an argument of `--generator hf:`: a folder, a .gguf file, or a name on the hub. Each run is a `gape run` on the
demo's questions in its own process, with its own ledger. Then another process holds all but a few gigabytes of the
device's memory: a run beside it shrinks its batches and finishes. Last, that process holds nearly all of it: the run
stops with one sentence, and `gape resume` finishes it once the memory is free.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

GIB = 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--runs", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--leave", type=float, nargs="*", default=[6.0, 1.5, 0.25], help="GiB left free by another process"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        print("| concurrent runs | finished | seconds | peak memory of each, GiB |\n| --- | --- | --- | --- |")
        for count in chosen.runs:
            started = [_start(folder / f"{count}-{i}", chosen) for i in range(count)]
            ended = [_end(*each) for each in started]
            _row(str(count), ended)
        for left in chosen.leave:
            with _Held(left):
                ended = [_end(*_start(folder / f"left-{left:g}", chosen))]
            _row(f"1, with {left:g} GiB left free", ended)
            if not ended[0]["finished"]:
                print(f"\nIt said: {ended[0]['said']}\n")
                begun = (folder / f"left-{left:g}" / "run").exists()
                _row("the same, again", [_end(*_start(folder / f"left-{left:g}", chosen, resume=begun))])


def child(out: str, *arguments: str) -> None:
    """Run a command of gape, and record the time and memory it took."""
    from gape.cli import app  # noqa: PLC0415  (the parent needs none of it)

    begun = time.monotonic()
    try:
        app(list(arguments))
    finally:
        torch: Any = importlib.import_module("torch")
        peak = torch.cuda.max_memory_reserved() / GIB
        Path(out).write_text(json.dumps({"peak": peak, "seconds": time.monotonic() - begun}))


def _start(folder: Path, chosen: argparse.Namespace, *, resume: bool = False) -> tuple[subprocess.Popen[str], Path]:
    folder.mkdir(exist_ok=True)
    data, run = folder / "questions.csv.gz", folder / "run"
    if not resume:
        data.write_bytes(files("gape.cli.demos").joinpath("questions.csv.gz").read_bytes())
    made = [
        "--generator",
        f"hf:{chosen.model}",
        "--embedder",
        chosen.embedder,
        "--samples",
        chosen.samples,
        "--rounds",
        chosen.rounds,
    ]
    arguments = (
        ["resume", run]
        if resume
        else ["run", data, "--text", "text", "--epsilon", 4, "--prompts", "forum", *made, "--out", run]
    )
    command = [sys.executable, __file__, "--child", folder / "took.json", *arguments]
    process = subprocess.Popen(  # noqa: S603  (this file)
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return process, folder


def _end(process: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    _, said = process.communicate()
    finished = process.returncode == 0 and (folder / "run" / "release" / "synthetic.parquet").exists()
    took = json.loads((folder / "took.json").read_text()) if (folder / "took.json").exists() else {}
    return {"finished": finished, "said": said.strip().splitlines()[-1] if said.strip() else "", **took}


def _row(name: str, ended: list[dict[str, Any]]) -> None:
    seconds = ", ".join(f"{each.get('seconds', 0):.0f}" for each in ended)
    peaks = ", ".join(f"{each.get('peak', 0):.1f}" for each in ended)
    print(f"| {name} | {sum(each['finished'] for each in ended)} | {seconds} | {peaks} |", flush=True)
    for each in ended:
        if not each["finished"]:
            print(f"  {each['said']}", file=sys.stderr)


class _Held:
    """Another process that holds all of the device's memory except some GiB."""

    def __init__(self, left: float) -> None:
        code = (
            "import sys, torch\n"
            f"free, _ = torch.cuda.mem_get_info(); held = []\n"
            f"while torch.cuda.mem_get_info()[0] > {left} * 2**30 + 2**28:\n"
            f"    some = min(2**31, int(torch.cuda.mem_get_info()[0] - {left} * 2**30))\n"
            "    held.append(torch.empty(some, dtype=torch.uint8, device='cuda'))\n"
            "print('held', flush=True); sys.stdin.read()\n"
        )
        self._process = subprocess.Popen(  # noqa: S603  (the code above)
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)
        )

    def __enter__(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdout.readline()

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
