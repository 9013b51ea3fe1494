"""What each language model gives: the quality of a default run, and the tokens and minutes that it takes.

    python experiments/models/run.py --data FILE --text COLUMN --prompts yelp --generators embedded hf:FILE.gguf
    python experiments/models/run.py --continuous FOLDER_OR_FILE.gguf --out FOLDER

A held-out part of the texts scores: Sinkhorn W1, recall (the share of real texts whose ball, reaching their 3rd nearest
other real text, holds a synthetic one) and the mean distance to the nearest synthetic text, before the first round and
at the end. Scores are computed from private data without noise. They are for research on data that needs no protection.
Rows are appended to quality.csv as they come.

With `--continuous`, the tokens per second of `hf:` are compared with the continuous batching of transformers, on the
same requests, and appended to continuous.csv.
"""

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from gape._support.files import read_table
from gape.core.protocols import Embedder
from gape.embedders.minilm import MiniLM
from gape.embedders.sentence_transformers import SentenceTransformer
from gape.language.request import TOP_K, TOP_P, Request
from gape.metrics import mean_nearest_distance, recall, sinkhorn1
from gape.modalities import load_texts
from gape.modalities.arrow import samples_from_arrow
from gape.privacy.noise import SeededNoise
from gape.runs.folder.layout import Layout
from gape.runs.progress import Progress
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row to a CSV file, and print it."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)
    print(dict(row), flush=True)


def quality(generator: str, texts: np.ndarray[Any, Any], held: np.ndarray[Any, Any], asked: argparse.Namespace) -> None:
    """Run one model at the defaults, and score its start and its end."""
    told: list[Progress] = []
    values = {
        "epsilon": asked.epsilon,
        "samples": asked.samples,
        "rounds": asked.rounds,
        "seed": asked.seed,
        "prompts": asked.prompts,
        "words": asked.words,
        "generator": generator,
        "embedder": asked.embedder,
    }
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        # Seeded noise, because nothing here is protected: two runs can be compared, and OpenDP is not needed.
        noise = SeededNoise(asked.seed)
        run_text(Settings.of(values), run, source=texts.tolist(), progress=told.append, noise=noise)
        minutes = (time.perf_counter() - began) / 60
        layout = Layout(run)
        paths = sorted((layout.round(turn).synthetic for turn in layout.complete()), key=lambda path: path.parent.name)
        written = [samples_from_arrow(read_table(path)["sample"])[: asked.samples] for path in (paths[0], paths[-1])]
    kind, _, name = asked.embedder.partition(":")
    embedder: Embedder = MiniLM() if kind == "minilm" else SentenceTransformer(name, batch=256)
    real, start, end = (embedder.embed(part) for part in (held, *written))
    row = {"data": Path(asked.data).name, "generator": Path(generator).name, "seed": asked.seed}
    for when, points in (("start", start), ("end", end)):
        row[f"W1, {when}"] = f"{sinkhorn1(real, points).value:.4f}"
        row[f"recall, {when}"] = f"{recall(real, points):.4f}"
        row[f"distance, {when}"] = f"{mean_nearest_distance(real, points):.4f}"
    tokens = max(progress.tokens for progress in told)
    append(asked.out / "quality.csv", {**row, "tokens": tokens, "minutes": f"{minutes:.2f}"})
    (asked.out / f"{row['data']}-{row['generator']}-{asked.seed}.txt").write_text(
        "\n".join(written[1]), encoding="utf-8"
    )


def continuous(file: str, out: Path, count: int = 2048, tokens: int = 100) -> None:
    """Compare `hf:` with the continuous batching of transformers on the same requests, alternating."""
    import torch  # noqa: PLC0415  (heavy)
    import transformers  # noqa: PLC0415  (heavy)

    from gape.language.transformers import TransformersModel  # noqa: PLC0415  (heavy)

    rng = np.random.default_rng(0)
    topics = ["a river", "a small town", "winter", "fish", "a train", "bread", "a garden", "the sea"]
    prompts = [f"Write a long story about {', '.join(rng.choice(topics, size=1 + i % 6))}." for i in range(count)]
    ours = TransformersModel(file)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where, name = (file, None) if Path(file).is_dir() else (str(Path(file).parent), Path(file).name)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.bfloat16).to(device)
    requests = [Request(prompt, max_tokens=tokens, seed=seed) for seed, prompt in enumerate(prompts)]
    inputs = [row.prompt for row in ours._rows(requests)]  # the same tokens, also where there is no chat template
    settings = transformers.GenerationConfig(
        max_new_tokens=tokens,
        do_sample=True,
        top_k=TOP_K,
        top_p=TOP_P,
        eos_token_id=sorted(ours._ends.of_answers),
        pad_token_id=0,
    )
    for attempt in range(4):  # the first of each warms up
        begin = time.perf_counter()
        written = sum(completion.completion_tokens for _, completion in ours.complete(requests))
        speed = written / (time.perf_counter() - begin)
        append(
            out / "continuous.csv",
            {"engine": "gape hf:", "run": attempt, "tokens": written, "per second": round(speed)},
        )
        begin = time.perf_counter()
        answers = theirs.generate_batch(inputs=inputs, generation_config=settings, progress_bar=False)
        written = sum(len(answer.generated_tokens) for answer in answers.values())
        speed = written / (time.perf_counter() - begin)
        row = {"engine": "transformers", "run": attempt, "tokens": written, "per second": round(speed)}
        append(out / "continuous.csv", row)


def main() -> None:
    """Run all models that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--text", default="text")
    parser.add_argument("--prompts", default="yelp")
    parser.add_argument("--generators", nargs="+", default=["embedded"])
    parser.add_argument("--embedder", default="minilm", help="or st:MODEL")
    parser.add_argument("--words", type=int, default=60, help="texts are cut to so many, and written so long")
    parser.add_argument("--limit", type=int, default=4000, help="number of texts that vote")
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--continuous", help="folder or GGUF file for the comparison with transformers")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    if asked.continuous:
        continuous(asked.continuous, asked.out)
    if asked.data:
        texts = load_texts(asked.data, asked.text).texts
        cut = np.array([" ".join(text.split()[: asked.words]) for text in texts], dtype=object)
        cut = cut[np.random.default_rng(0).permutation(len(cut))]
        held, voting = cut[: asked.held_out], cut[asked.held_out : asked.held_out + asked.limit]
        for generator in asked.generators:
            quality(generator, voting, held, asked)


if __name__ == "__main__":
    main()
