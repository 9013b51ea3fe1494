import numpy as np
import pytest

from gape.core.errors import InputError
from gape.metrics import classify
from gape.metrics.usefulness import _logistic_regression


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

    def test_the_auc_is_the_share_of_pairs_in_the_right_order(self) -> None:
        rng = np.random.default_rng(3)
        Y, X = rng.normal(size=(200, 1)), rng.normal(size=(90, 1))
        taught = ["a" if y + rng.normal() > 0 else "b" for y in Y[:, 0]]
        tested = ["a" if x + rng.normal() > 0 else "b" for x in X[:, 0]]
        above = [X[i, 0] > X[j, 0] for i in range(90) for j in range(90) if (tested[i], tested[j]) == ("a", "b")]
        assert classify(Y, taught, X, tested).auc == pytest.approx(np.mean(above))
        assert classify(Y, ["a"] * 200, X, tested).auc == 0.5

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
