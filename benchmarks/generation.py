"""The throughput of language models on this machine, in tokens per second, by batch size.

python benchmarks/generation.py --model FOLDER_OR_NAME [--batches 1 8 32] [--requests 64] [--words 60] [--tokens 100]
python benchmarks/generation.py --embedded NAME_OR_FILE --openvino [--requests 64] [--repeat 3]
python benchmarks/generation.py --embedded NAME_OR_FILE --bench PATH_OF_llama-batched-bench [--batches 8] [--repeat 3]

Each request is a prompt of a different length, about half to one and a half times `--words` words, sampled at
temperature 1 up to `--tokens` tokens. Only tokens of answers are counted, but the time includes the prompts. Without
`--model`, the embedded model is measured, with as many slots as a batch has answers.

With `--openvino`, the two engines for GGUF files take turns on the same requests, with their usual numbers of answers
at once, on Linux. Loading is not counted.

With `--bench`, the embedded model and llama.cpp's own benchmark take turns, on the file that the embedded model loads,
with prompts and answers of the same mean length. The benchmark draws no tokens, and all its answers have one length.
All are given per second of CPU time, which other programs on the machine hardly change.
"""

import argparse
import hashlib
import os
import resource
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np

from gape.language.embedded import EmbeddedModel
from gape.language.faster import in_fast_format
from gape.language.locate import locate
from gape.language.openvino import OpenVinoModel
from gape.language.request import LanguageModel, Request
from gape.language.transformers import TransformersModel
from gape.language.weights import SMOLLM2, fetch

WORDS = ["river", "of", "small", "town", "in", "winter", "was", "cold", "and", "people", "told", "other", "fish"]


def prompts(count: int, words: int, tokens: int) -> list[Request]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(words // 2, words + words // 2 + 1, size=count)
    texts = [" ".join(rng.choice(WORDS, size=length)) for length in lengths]
    return [Request(f"Write a long story: {text}", max_tokens=tokens, seed=i) for i, text in enumerate(texts)]


def measure(model: LanguageModel, requests: list[Request]) -> tuple[int, float]:
    """Return the tokens written and the seconds, after a first short answer as warm-up."""
    list(model.complete([Request("Hello.", max_tokens=4)] * 2))
    begin = time.perf_counter()
    written = sum(completion.completion_tokens for _, completion in model.complete(requests))
    return written, time.perf_counter() - begin


def against_bench(file: Path, bench: Path, batch: int, requests: list[Request], repeat: int) -> None:
    """Print tokens of answers per CPU second: ours, llama.cpp's, and the ratio, for each turn."""
    model = EmbeddedModel(file, slots=batch)
    fast = in_fast_format(file, hashlib.sha256(file.read_bytes()).hexdigest()[:12])
    list(model.complete([Request("Hello.", max_tokens=4)] * 2))
    ratios = []
    print(f"{'ours':>8} {'theirs':>8} {'ratio':>7}   tokens per CPU second, batch {batch}, {file.name}")
    for _ in range(repeat):
        begin = time.process_time()
        done = list(model.complete(requests))
        ours = sum(completion.completion_tokens for _, completion in done) / (time.process_time() - begin)
        prompt = round(statistics.mean(completion.prompt_tokens for _, completion in done))
        answer = round(statistics.mean(completion.completion_tokens for _, completion in done))
        rounds = max(2, len(requests) // batch // 2)
        loading = bench_seconds(bench, fast, 1, 1, [1])
        theirs = rounds * batch * answer / (bench_seconds(bench, fast, prompt, answer, [batch] * rounds) - loading)
        ratios.append(ours / theirs)
        print(f"{ours:>8.1f} {theirs:>8.1f} {ours / theirs:>7.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


def against_openvino(file: Path, requests: list[Request], repeat: int) -> None:
    """Print tokens of answers per CPU second of both engines, and the ratio, for each turn."""
    llama, openvino = EmbeddedModel(file), OpenVinoModel(file)
    ratios = []
    print(f"{'llama.cpp':>10} {'OpenVINO':>10} {'ratio':>7}   tokens per CPU second, {file.name}")
    for turn in range(repeat + 1):  # the first warms up
        speeds = []
        for model in (llama, openvino):
            begin = cpu_seconds()
            written = sum(done.completion_tokens for _, done in model.complete(requests if turn else requests[:16]))
            speeds.append(written / (cpu_seconds() - begin))
        if turn:
            ratios.append(speeds[1] / speeds[0])
            print(f"{speeds[0]:>10.1f} {speeds[1]:>10.1f} {ratios[-1]:>7.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it has started."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ticks = sum(sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[11:13])) for pid in children)
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def bench_seconds(bench: Path, file: Path, prompt: int, answer: int, batches: list[int]) -> float:
    """Return the CPU seconds of llama-batched-bench on one thread."""
    command = [str(bench), "-m", str(file), "-c", "8192", "-b", "128", "-ub", "128", "-t", "1", "-tb", "1"]
    command += ["-npp", str(prompt), "-ntg", str(answer), "-npl", ",".join(map(str, batches)), "--poll", "0"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  (a program that the user names)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder, GGUF file or name of the hub; the embedded model if left out")
    parser.add_argument("--device", help="cpu, cuda, ...")
    parser.add_argument("--dtype", help="float32, bfloat16, ...")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--embedded", default="", help="name or file of the embedded model")
    parser.add_argument("--openvino", action="store_true", help="compare with OpenVINO")
    parser.add_argument("--bench", type=Path, help="the program llama-batched-bench")
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    requests = prompts(asked.requests, asked.words, asked.tokens)
    if asked.openvino:
        against_openvino(locate(asked.embedded), requests, asked.repeat)
        return
    if asked.bench is not None:
        for batch in asked.batches:
            against_bench(locate(asked.embedded), asked.bench, batch, requests, asked.repeat)
        return
    print(f"{'batch':>6} {'tokens':>9} {'seconds':>9} {'tokens/s':>10}")
    for batch in asked.batches:
        model: LanguageModel
        if asked.model is None:
            model = EmbeddedModel(fetch(SMOLLM2), slots=batch)
        else:
            model = TransformersModel(asked.model, device=asked.device, dtype=asked.dtype, batch=batch)
        tokens, seconds = measure(model, requests)
        print(f"{batch:>6} {tokens:>9,} {seconds:>9.1f} {tokens / seconds:>10,.0f}", flush=True)
    print(model.name)


if __name__ == "__main__":
    main()
