"""What every engine that runs SmolLM2 on this machine promises, beyond what language models do."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gape.core.errors import InputError
from gape.language.request import Completion, Request
from gape.language.weights import SMOLLM2, fetch


class LocalModelContract:
    """Inherit, and name the class and a function that answers by a model of it."""

    kind: ClassVar[Any]
    answers: ClassVar[Callable[..., list[Completion]]]

    def test_an_answer_that_was_cut_says_so(self) -> None:
        (completion,) = self.answers(Request("Write a long story about a river.", max_tokens=5))
        assert not completion.finished
        assert completion.completion_tokens == 5

    def test_an_answer_ends_with_the_first_sentence_after_enough_tokens(self) -> None:
        whole = Request("Write a long story about a river.", max_tokens=90, seed=3)
        long, short = self.answers(whole, replace(whole, enough=20))
        assert long.text.startswith(short.text)
        assert 20 <= short.completion_tokens < long.completion_tokens
        assert short.text.endswith((".", "!", "?"))
        assert not short.finished
        assert short.prompt_tokens == long.prompt_tokens

    @pytest.mark.parametrize("opening", ["The capital of France is", "The capital of France is "])
    def test_it_goes_on_from_an_opening_with_or_without_the_last_space(self, opening: str) -> None:
        question = Request("What is the capital of France?", opening, temperature=0.0, max_tokens=6)
        assert (opening + self.answers(question)[0].text).startswith("The capital of France is Paris")

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=re.escape(f"there is no model file {tmp_path / 'none.gguf'}; fetch one")):
            self.kind(tmp_path / "none.gguf")

    @pytest.mark.parametrize("slots", [0, -1])
    def test_no_slots(self, slots: int) -> None:
        with pytest.raises(InputError, match=f"must be at least 1, got {slots}"):
            self.kind(fetch(SMOLLM2), slots=slots)


TALKING = """
from {module} import {name}
from gape.language.request import Request
from gape.language.weights import SMOLLM2, fetch

model = {name}(fetch(SMOLLM2))
for _ in model.complete([Request("Hello.", max_tokens=1)] + [Request("Write a novel.", max_tokens=900)] * 50):
    print("begun", flush=True)
"""


def check_that_it_stops_when_interrupted(kind: type, seconds: float) -> None:
    """Interrupt a process whose answers under way would take minutes; it ends in time and writes to no terminal."""
    code = TALKING.format(module=kind.__module__, name=kind.__name__)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    begin = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert time.monotonic() - begin < seconds
    assert output == ""
    assert errors.startswith("Traceback")
    assert errors.rstrip().endswith("KeyboardInterrupt")
