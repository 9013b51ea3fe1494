"""The throughput of language models on this machine, in tokens per second, by batch size.

python benchmarks/generation.py --model FOLDER_OR_NAME [--batches 1 8 32] [--requests 64] [--words 60] [--tokens 100]

Each request is a prompt of a different length, about half to one and a half times `--words` words, sampled at
temperature 1 up to `--tokens` tokens. Only tokens of answers are counted, but the time includes the prompts. Without
`--model`, the embedded model is measured, with as many slots as a batch has answers.
"""

import argparse
import time

import numpy as np

from gape.language.embedded import EmbeddedModel
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder, GGUF file or name of the hub; the embedded model if left out")
    parser.add_argument("--device", help="cpu, cuda, ...")
    parser.add_argument("--dtype", help="float32, bfloat16, ...")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=100)
    asked = parser.parse_args()
    requests = prompts(asked.requests, asked.words, asked.tokens)
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
