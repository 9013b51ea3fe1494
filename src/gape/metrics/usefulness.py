"""What synthetic data is good for: a model is trained on it and tested on real records.

The tests read real records and are not differentially private. Read every figure beside that of the same model trained
on as many real records, or on none: a test that the untrained model passes says nothing of the data.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from gape._support.parallel import one_blas_thread
from gape.core.errors import InputError, in_one_line
from gape.core.types import Floats
from gape.metrics.arrays import Array, check_pair, on_host


@dataclass(frozen=True)
class Classification:
    """How a classifier trained on synthetic points does on real ones."""

    accuracy: float  # share of real points labelled rightly
    balanced_accuracy: float  # the mean over real labels of that share: the rare ones count as much
    correct: NDArray[np.bool_]  # (n,), for `bootstrap`


def classify(
    synthetic: Array, synthetic_labels: Sequence[Any], real: Array, real_labels: Sequence[Any], *, penalty: float = 1e-3
) -> Classification:
    """Train multinomial logistic regression on labelled synthetic points and label real ones by it.

    With x centred at the synthetic mean and divided by its root mean square norm, it minimises

        -(1/m) sum_i log softmax(W x_i + b)_{y_i} + (penalty / 2) |W|^2,

    which is strictly convex in W and has one optimum, found by L-BFGS. A real label that no synthetic point has is
    never predicted, and its records count as wrong.

    synthetic: (m, d), real: (n, d), with one label each.
    """
    X, Y = map(on_host, check_pair(real, synthetic))
    if len(real_labels) != len(X) or len(synthetic_labels) != len(Y):
        raise InputError(
            f"every point needs one label, got {len(real_labels)} for {len(X)} real and {len(synthetic_labels)} for "
            f"{len(Y)} synthetic points; give the lists in the order of the points"
        )
    if not 0 < penalty < math.inf:
        raise InputError(f"penalty must be positive and finite, got {penalty}; use the default of 1e-3")
    centre: Floats = Y.mean(axis=0, dtype=np.float64)
    size = math.sqrt(float(np.mean(np.sum((Y - centre) ** 2, axis=1)))) or 1.0
    places: dict[Any, int] = {}
    wanted = np.array([places.setdefault(label, len(places)) for label in synthetic_labels])
    with one_blas_thread():  # products too small to share
        W, b = _logistic_regression((Y - centre) / size, wanted, len(places), penalty)
        guessed = ((X - centre) / size @ W + b).argmax(axis=1)
    correct = guessed == np.array([places.get(label, -1) for label in real_labels])
    shares = [correct[[other == label for other in real_labels]].mean() for label in dict.fromkeys(real_labels)]
    return Classification(float(correct.mean()), float(np.mean(shares)), correct)


def _logistic_regression(X: Floats, wanted: NDArray[Any], classes: int, penalty: float) -> tuple[Floats, Floats]:
    """Return the weights (d, classes) and the biases (classes,)."""
    m, d = X.shape
    rows = np.arange(m)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        W, b = parameters[classes:].reshape(d, classes), parameters[:classes]
        logits = X @ W + b
        logs = logits - logsumexp(logits, axis=1, keepdims=True)
        value = -logs[rows, wanted].mean() + penalty / 2 * np.sum(W * W)
        slope = np.exp(logs)
        slope[rows, wanted] -= 1
        slope /= m
        return float(value), np.concatenate([slope.sum(axis=0), (X.T @ slope + penalty * W).ravel()])

    # Ended by the gradient alone: the loss stands still in float64 well before the weights do.
    limits = {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-7, "ftol": 0.0}
    best = minimize(loss, np.zeros(classes * (d + 1)), jac=True, method="L-BFGS-B", options=limits).x
    return best[classes:].reshape(d, classes), best[:classes]


@dataclass(frozen=True)
class NextWord:
    """How a language model foretells real text, token by token, before and after training on synthetic text."""

    accuracy: float  # share of tokens that were the likeliest
    perplexity: float  # exp of the mean negative log-likelihood of a token
    accuracy_before: float
    perplexity_before: float
    tokens: int  # that were foretold
    text_accuracy: Floats  # (n,), the accuracy in each real text that has a token to foretell, for `bootstrap`


def next_word(
    model: str | Path,
    synthetic: Sequence[str],
    real: Sequence[str],
    rng: np.random.Generator,
    *,
    epochs: int = 3,
    learning_rate: float = 3e-4,
    batch: int = 16,
    length: int = 128,
    device: str | None = None,
) -> NextWord:
    """Fine-tune a causal language model on synthetic texts and let it foretell every token of real ones.

    As the authors of AugPE report it (Xie et al., 2024): what synthetic text teaches about the real text. `model` is a
    folder or a name on the hub, read by transformers; nothing is written back. Texts are cut to `length` tokens; the
    first token, which nothing precedes, is not foretold. AdamW at a constant `learning_rate`, batches in the order of
    `rng`, on `device`, by default a CUDA GPU if there is one. Figures of different tokenizers cannot be compared.
    """
    if isinstance(synthetic, str) or isinstance(real, str) or not len(synthetic) or not len(real):
        raise InputError("synthetic and real must be lists of at least one text, got a single text or none")
    if epochs < 0 or batch < 1 or length < 2 or not 0 < learning_rate < math.inf:
        raise InputError(
            "epochs must be at least 0, batch at least 1, length at least 2 and learning_rate positive, got "
            f"{epochs}, {batch}, {length} and {learning_rate}"
        )
    learner = _Learner(model, device, batch)
    lessons, questions = learner.encode(synthetic, length), learner.encode(real, length)
    if not lessons or not questions:
        raise InputError("synthetic and real must each have a text of at least two tokens, got none; check the texts")
    before = learner.foretell(questions)
    learner.learn(lessons, epochs, learning_rate, rng)
    after = learner.foretell(questions)
    tokens = int(after[:, 2].sum())
    return NextWord(
        accuracy=float(after[:, 0].sum() / tokens),
        perplexity=math.exp(after[:, 1].sum() / tokens),
        accuracy_before=float(before[:, 0].sum() / tokens),
        perplexity_before=math.exp(before[:, 1].sum() / tokens),
        tokens=tokens,
        text_accuracy=after[:, 0] / after[:, 2],
    )


class _Learner:
    """A causal language model of transformers in float32, and what to do with it."""

    def __init__(self, model: str | Path, device: str | None, batch: int) -> None:
        try:
            import torch  # noqa: PLC0415  (heavy, and in an extra)
            import transformers  # noqa: PLC0415  (likewise)
        except ImportError as error:
            raise InputError(
                f"next_word needs torch and transformers ({error}); run `pip install 'gape[hf]'`"
            ) from error
        self._torch, self._batch = torch, batch
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(model)
            loader = transformers.AutoModelForCausalLM
            self._model = loader.from_pretrained(model, dtype="float32").to(self._device)
        except Exception as error:  # whatever the libraries and the files raise
            raise InputError(
                f"transformers cannot load {model} ({in_one_line(error)}); name a folder or a model of the hub that "
                "is a causal language model"
            ) from error

    def encode(self, texts: Sequence[str], length: int) -> list[list[int]]:
        """The tokens of the texts that have at least two."""
        encoded = self._tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]
        return [ids for ids in encoded if len(ids) > 1]

    def _batches(self, texts: list[list[int]], order: NDArray[Any]) -> Iterator[tuple[NDArray[Any], Any, Any]]:
        """Which texts, their tokens, (r, width), and where there are any. Padding comes last, where none looks."""
        torch = self._torch
        for start in range(0, len(order), self._batch):
            chosen = order[start : start + self._batch]
            width = max(len(texts[i]) for i in chosen)
            ids = torch.zeros((len(chosen), width), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, i in enumerate(chosen):
                ids[row, : len(texts[i])] = torch.tensor(texts[i])
                mask[row, : len(texts[i])] = 1
            yield chosen, ids.to(self._device), mask.to(self._device)

    def _losses(self, ids: Any, mask: Any) -> tuple[Any, Any]:
        """The negative log-likelihood of every token but the first, and whether it was the likeliest; 0 at padding."""
        logits = self._model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1].float()
        wanted, there = ids[:, 1:], mask[:, 1:]
        losses = self._torch.nn.functional.cross_entropy(logits.transpose(1, 2), wanted, reduction="none")
        return losses * there, (logits.argmax(dim=2) == wanted) * there

    def learn(self, texts: list[list[int]], epochs: int, learning_rate: float, rng: np.random.Generator) -> None:
        """Fine-tune on the texts."""
        torch = self._torch
        optimiser = torch.optim.AdamW(self._model.parameters(), lr=learning_rate)
        self._model.train()
        devices = [torch.device(self._device)] if self._device.startswith("cuda") else []
        with torch.random.fork_rng(devices):  # for dropout; the caller's random numbers stay as they were
            torch.manual_seed(int(rng.integers(2**63)))
            for _ in range(epochs):
                for _, ids, mask in self._batches(texts, rng.permutation(len(texts))):
                    loss = self._losses(ids, mask)[0].sum() / mask[:, 1:].sum()
                    optimiser.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
                    optimiser.step()

    def foretell(self, texts: list[list[int]]) -> Floats:
        """Tokens foretold rightly, their negative log-likelihood, and their number, for every text, (n, 3)."""
        self._model.eval()
        scores = np.empty((len(texts), 3))
        by_length = np.argsort([-len(text) for text in texts], kind="stable")
        with self._torch.inference_mode():
            for chosen, ids, mask in self._batches(texts, by_length):
                losses, hits = self._losses(ids, mask)
                columns = (hits.sum(1), losses.double().sum(1), mask[:, 1:].sum(1))
                scores[chosen] = np.stack([column.cpu().numpy() for column in columns], axis=1)
        return scores
