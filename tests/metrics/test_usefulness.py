import math
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.metrics import NextWord, classify, next_word
from gape.metrics.usefulness import _Learner, _logistic_regression
from small_model import FOLDER

# What the model has never read, so that there is something to learn.
LESSONS = [f"The engine number {i} drives the pump and the pump fills tank {i % 7}." for i in range(40)]
QUESTIONS = [f"The engine number {i} drives the pump and the pump fills tank {i % 5}." for i in range(50, 60)]


class TestClassifier:
    @pytest.mark.parametrize("classes", [2, 4])
    def test_is_at_the_optimum_that_autograd_sees(self, classes: int) -> None:
        import torch  # noqa: PLC0415  (heavy)

        rng = np.random.default_rng(classes)
        X, wanted = rng.standard_normal((120, 5)), rng.integers(0, classes, 120)
        W, b = (torch.tensor(part, requires_grad=True) for part in _logistic_regression(X, wanted, classes, 0.01))
        loss = torch.nn.functional.cross_entropy(torch.tensor(X) @ W + b, torch.tensor(wanted)) + 0.005 * (W**2).sum()
        loss.backward()
        assert float(W.grad.abs().max()) < 1e-6
        assert float(b.grad.abs().max()) < 1e-6

    def test_learns_what_is_there_to_learn(self) -> None:
        rng = np.random.default_rng(0)
        centres = 3 * rng.standard_normal((4, 10))
        labels, truth = rng.integers(0, 4, 400), rng.integers(0, 4, 300)
        synthetic = centres[labels] + rng.standard_normal((400, 10))
        real = centres[truth] + rng.standard_normal((300, 10))
        names = np.array(["ant", "bee", "cow", "dog"])
        found = classify(synthetic, names[labels].tolist(), real, names[truth].tolist())
        assert found.accuracy > 0.95
        assert found.accuracy == found.correct.mean()
        shuffled = classify(synthetic, rng.permutation(labels).tolist(), real, truth.tolist())
        assert shuffled.accuracy < 0.5

    def test_does_not_depend_on_units_or_origin(self) -> None:
        rng = np.random.default_rng(1)
        X, Y, a, b = rng.random((50, 3)), rng.random((60, 3)), rng.integers(0, 2, 50), rng.integers(0, 2, 60)
        plain = classify(X, a.tolist(), Y, b.tolist())
        moved = classify(1000 * X + 500, a.tolist(), 1000 * Y + 500, b.tolist())
        assert plain.correct.tolist() == moved.correct.tolist()

    def test_a_label_that_was_not_made_counts_as_wrong(self) -> None:
        points = [[0.0], [0.1], [5.0], [5.1]]
        found = classify(points, ["a", "a", "b", "b"], [*points, [5.0], [5.05]], ["a", "a", "b", "b", "c", "c"])
        assert found.accuracy == pytest.approx(4 / 6)
        assert found.balanced_accuracy == pytest.approx(2 / 3)

    def test_one_label_or_one_place_is_enough(self) -> None:
        assert classify([[0.0], [1.0]], ["a", "a"], [[0.0]], ["a"]).accuracy == 1.0
        assert classify([[1.0], [1.0], [1.0]], ["a", "b", "b"], [[1.0]], ["b"]).accuracy == 1.0

    def test_refuses_labels_and_penalties_that_are_none(self) -> None:
        with pytest.raises(InputError, match="every point needs one label, got 1 for 2 real"):
            classify([[0.0]], ["a"], [[0.0], [1.0]], ["a"])
        with pytest.raises(InputError, match="penalty must be positive"):
            classify([[0.0]], ["a"], [[0.0]], ["a"], penalty=0.0)


@cache
def taught(epochs: int = 4, batch: int = 8) -> NextWord:
    import torch  # noqa: PLC0415  (heavy)

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    return next_word(FOLDER, LESSONS, QUESTIONS, rng, epochs=epochs, batch=batch, learning_rate=2e-3, device="cpu")


class TestNextWord:
    def test_training_on_alike_texts_helps(self) -> None:
        found = taught()
        assert found.perplexity < found.perplexity_before / 3
        assert found.accuracy > found.accuracy_before + 0.2

    def test_figures_are_those_of_one_text_after_the_other(self) -> None:
        import torch  # noqa: PLC0415  (heavy)
        import transformers  # noqa: PLC0415  (likewise)

        tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
        model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype="float32").eval()
        losses, hits = [], []
        for text in QUESTIONS:
            ids = tokenizer(text)["input_ids"]
            for end in range(1, len(ids)):
                with torch.inference_mode():
                    logs = model(torch.tensor([ids[:end]])).logits[0, -1].double().log_softmax(0)
                losses.append(-float(logs[ids[end]]))
                hits.append(int(logs.argmax()) == ids[end])
        found = taught()
        assert found.tokens == len(hits)
        assert found.perplexity_before == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)
        assert found.accuracy_before == pytest.approx(np.mean(hits), rel=1e-9)

    def test_without_training_nothing_changes_whatever_the_batch(self) -> None:
        found = taught(epochs=0, batch=3)
        assert found.perplexity == found.perplexity_before == pytest.approx(taught().perplexity_before, rel=1e-5)
        assert found.accuracy == pytest.approx(taught().accuracy_before)

    def test_the_accuracy_of_texts_adds_up(self) -> None:
        learner = _Learner(FOLDER, "cpu", 4)
        lengths = [len(ids) - 1 for ids in learner.encode(QUESTIONS, 128)]
        assert np.average(taught().text_accuracy, weights=lengths) == pytest.approx(taught().accuracy)

    def test_repeats_itself_and_leaves_torchs_random_numbers_alone(self) -> None:
        import torch  # noqa: PLC0415  (heavy)

        before = torch.random.get_rng_state()
        taught.cache_clear()
        first = taught(epochs=1)
        taught.cache_clear()
        assert taught(epochs=1).perplexity == first.perplexity
        assert torch.equal(torch.random.get_rng_state(), before)

    def test_texts_are_cut(self) -> None:
        found = next_word(FOLDER, LESSONS[:1], QUESTIONS, np.random.default_rng(0), epochs=0, length=5, device="cpu")
        assert found.tokens == 4 * len(QUESTIONS)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"synthetic": []}, "lists of at least one text"),
            ({"real": "a text"}, "lists of at least one text"),
            ({"real": [""]}, "at least two tokens"),
            ({"batch": 0}, "batch at least 1"),
            ({"learning_rate": 0.0}, "learning_rate positive"),
        ],
    )
    def test_refuses_what_it_cannot_use(self, change: dict[str, Any], words: str) -> None:
        given = {"model": FOLDER, "synthetic": LESSONS, "real": QUESTIONS, "rng": np.random.default_rng(0), **change}
        with pytest.raises(InputError, match=words):
            next_word(**given)

    def test_refuses_a_folder_without_a_model(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=f"transformers cannot load {tmp_path}"):
            next_word(tmp_path, LESSONS, QUESTIONS, np.random.default_rng(0))

    def test_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "transformers", None)
        with pytest.raises(InputError, match=r"pip install 'gape\[hf\]'"):
            next_word(FOLDER, LESSONS, QUESTIONS, np.random.default_rng(0))
