"""Both decoders against the model itself, read from the first token each time."""

from functools import cache
from typing import Any

import pytest

from gape.language import transformers
from gape.language.decoding import Decoder, FixedDecoder, GrowingDecoder, is_plain, share_heads
from gape.language.request import Request
from small_model import FOLDER, MIXED, answers, model, tokens

TEXTS = ["Once upon a time there was a very big dog.", "The sun", "Lily and her mom went to the park"]


@cache
def grouped() -> Any:
    """A model whose heads share keys, and whose attention reads them where they lie."""
    import torch  # noqa: PLC0415  (heavy)
    import transformers as library  # noqa: PLC0415  (heavy)

    other = library.AutoModelForCausalLM.from_pretrained(FOLDER, dtype="float32").eval()
    share_heads(torch, library, other)
    return other


def batch() -> tuple[Any, Any]:
    import torch  # noqa: PLC0415  (heavy)

    rows = [tokens(text) for text in TEXTS]
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def alone(row: list[int]) -> Any:
    """The logits after a row, without cache, padding or company."""
    import torch  # noqa: PLC0415  (heavy)

    with torch.inference_mode():
        return model()._model(input_ids=torch.tensor([row])).logits[0, -1]


@pytest.mark.parametrize("kind", [GrowingDecoder, FixedDecoder])
def test_the_logits_of_a_row_are_those_of_the_row_alone(kind: type[GrowingDecoder | FixedDecoder]) -> None:
    import torch  # noqa: PLC0415  (heavy)

    own = model()
    network = grouped() if kind is FixedDecoder else own._model
    ids, mask = batch()
    decoder: Decoder = kind(torch, own._transformers, network, own._accepted, ids.shape[1] + 6)
    rows = [tokens(text) for text in TEXTS]
    logits = decoder.first(ids, mask)
    for step in range(6):
        torch.testing.assert_close(logits, torch.stack([alone(row) for row in rows]), atol=1e-4, rtol=0)
        if step == 3:
            rows = [rows[2], rows[0]]
            decoder.keep(torch.tensor([2, 0]))
        new = [17 + step + i for i in range(len(rows))]
        rows = [[*row, token] for row, token in zip(rows, new, strict=True)]
        logits = decoder.next(torch.tensor(new)[:, None])
    torch.testing.assert_close(logits, torch.stack([alone(row) for row in rows]), atol=1e-4, rtol=0)


def test_the_small_model_has_heads_that_share_keys() -> None:
    assert grouped().config.num_key_value_heads < grouped().config.num_attention_heads
    assert grouped().config._attn_implementation != model()._model.config._attn_implementation


def test_answers_are_the_same_by_either(monkeypatch: pytest.MonkeyPatch) -> None:
    other = transformers.TransformersModel(FOLDER, device="cpu", batch=4)
    monkeypatch.setattr(transformers, "make_decoder", FixedDecoder)
    assert answers(*MIXED, by=other) == answers(*MIXED, by=model())
    assert [place for place, _ in other.complete([Request("Tim", max_tokens=n) for n in (9, 3, 6, 3)])] == [1, 3, 2, 0]


def test_only_a_plain_model_has_a_fixed_cache() -> None:
    own = model()
    assert is_plain(own._transformers, own._model, own._accepted)
    assert not is_plain(own._transformers, own._model, own._accepted - {"position_ids"})
    config = own._transformers.MistralConfig(
        hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        vocab_size=16, sliding_window=4,
    )  # fmt: skip
    windowed = own._transformers.MistralForCausalLM(config)
    assert not is_plain(own._transformers, windowed, own._accepted)
