"""Runs on disk that the tests of the report share, made by the real loop under secure noise."""

import math
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np

import parts
from gape.embedders.cached import Cached
from gape.embedders.minilm import MiniLM
from gape.evolution.plan import Plan
from gape.generators.corpus import CorpusText
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SecureNoise
from gape.runs.run import run
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from gape.selection.ranking import Ranking
from gape.voting.electorate import LocalElectorate
from made_up import private_rows, write_corpus, write_csv

PRIVATE_NAME = "ward-nine-patients.csv"  # the name of a private file is private too

# Whatever a generator may write: each would break out of an element, an attribute, a script or a line of one.
HOSTILE = (
    "</script><img src=x onerror=window.hacked=1>",
    "<!-- <script> window.hacked=2",
    "'\"><svg onload=window.hacked=3>",
    "${window.hacked=4} $data `x` \\u003c \\",
    "]]> &lt;b&gt; &amp; <b>bold</b>",
    "line\u2028separator\u2029and\x7fmore",
    "half \ufffd of \U0001f600 a pair",
    "javascript:window.hacked=5",
    "a" * 400,  # no place to break a line
    "רק טקסט من اليمين",
)


def text_run(folder: Path, **settings: object) -> Path:
    """Make a run on private reviews with canaries; the file lies beside the run, under a name of its own."""
    private, corpus = folder / PRIVATE_NAME, folder / "public.txt"
    write_csv(private, private_rows())
    write_corpus(corpus)
    values = {
        "data": str(private),
        "text": "review",
        "epsilon": 4.0,
        "samples": 12,
        "rounds": 3,
        "generator": f"corpus:{corpus}",
        "scales": (0.3, 0.6),
    }
    run_text(Settings.of(values, settings), folder / "run")
    return folder / "run"


def vector_run(folder: Path, epsilon: float = 2.0) -> Path:
    """Make a run in the plane."""
    plan = Plan(epsilon=epsilon, delta=1e-5, rounds=2, samples=3, scales=(0.1, 0.01), copies=2, seed=11)
    with closing(Ledger(":memory:", Budget(epsilon, plan.delta))) as ledger:
        parts.small_run(folder / "run", ledger, plan=plan, noise=SecureNoise())
    return folder / "run"


def hostile_run(folder: Path) -> Path:
    """Make a run, put together in Python, whose corpus is hostile."""
    embedder = Cached(MiniLM())
    private = embedder.embed(np.array([f"a report of number {i}" for i in range(40)], dtype=object))
    plan = Plan(epsilon=math.inf, delta=1e-5, rounds=2, samples=len(HOSTILE), scales=(0.5,), copies=1)
    with closing(Ledger(":memory:", Budget(math.inf, plan.delta))) as ledger:
        generator, electorate = CorpusText(HOSTILE, embedder), LocalElectorate(private)
        run(folder / "run", plan, generator, embedder, electorate, Ranking(), ledger)
    return folder / "run"


def stopped(run_folder: Path, destination: Path, after: int) -> Path:
    """Copy a run as it was after so many rounds."""
    shutil.copytree(run_folder, destination)
    shutil.rmtree(destination / "release")
    for path in (destination / "internal" / "rounds").iterdir():
        if int(path.name) > after:
            shutil.rmtree(path)
    return destination
