"""Models written out for slots against those of the library, token by token."""

from typing import Any

import pytest

from gape.language.gpu.library import Library
from gape.language.gpu.llama import Llama, is_llama

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
}

COUNT, ROOM = 5, 32  # slots, and tokens of each


def small(kind: str, **settings: Any) -> Any:
    """A model with random weights, biases and norms included."""
    import torch  # noqa: PLC0415  (heavy)
    import transformers  # noqa: PLC0415  (heavy)

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES | settings)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, mean=0.0 if weights.ndim > 1 else 1.0, std=0.2)
    return model


KINDS = [
    ("Llama", {}),
    ("Llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("Llama", {"num_key_value_heads": 6, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}),
    ("Mistral", {"sliding_window": None}),
    ("Qwen2", {}),
    ("Qwen3", {}),
]


def assert_same_logits(alone: Any, read: Any, lengths: tuple[int, ...], tolerance: float) -> None:
    """Read prompts of some lengths into slots, and some tokens after each; `alone` is the model in its own words."""
    import torch  # noqa: PLC0415  (heavy)

    prompts = [torch.randint(97, (length,), generator=torch.Generator().manual_seed(length)) for length in lengths]
    slots = torch.tensor([3, 0, 4][: len(prompts)])
    read.read(torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True), slots)
    places = torch.zeros(COUNT, dtype=torch.long)
    places[slots] = torch.tensor(lengths)
    written = [prompt.tolist() for prompt in prompts]
    for token in (5, 96, 0, 41):
        logits = read.step(torch.full((COUNT, 1), token), places, places + 1)
        places += 1
        for slot, tokens in zip(slots.tolist(), written, strict=True):
            tokens.append(token)
            with torch.inference_mode():
                expected = alone(input_ids=torch.tensor([tokens])).logits[0, -1]
            torch.testing.assert_close(logits[slot], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kind", "settings"), KINDS)
@pytest.mark.parametrize("reader", ["written out", "the library's"])
def test_logits_are_those_of_the_model_alone(kind: str, settings: dict[str, Any], reader: str) -> None:
    import torch  # noqa: PLC0415  (heavy)
    import transformers  # noqa: PLC0415  (heavy)

    alone, model = small(kind, **settings), small(kind, **settings)
    assert is_llama(model)
    read: Any = (
        Llama(torch, model, COUNT, ROOM)
        if reader == "written out"
        else Library(torch, transformers, model, COUNT, ROOM)
    )
    assert_same_logits(alone, read, (9, 1, 4), 1e-4)


@pytest.mark.parametrize("shape", [(1, 6), (4, 1), (3, 5), (1, 1)])
def test_kernels_which_read_by_address_are_given_no_views_that_repeat(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    import torch  # noqa: PLC0415  (heavy)

    from gape.language.gpu import plain  # noqa: PLC0415  (needs torch)

    whole, calls = plain.rotate_and_keep, 0

    def watched(*given: Any) -> None:
        nonlocal calls
        calls += 1
        assert all(each.is_contiguous() for each in given if isinstance(each, torch.Tensor))
        whole(*given)

    monkeypatch.setattr(plain, "rotate_and_keep", watched)
    read = Llama(torch, small("Llama"), 4, 8)
    read.read(torch.zeros(shape, dtype=torch.long), torch.arange(shape[0]))
    read.step(torch.zeros((4, 1), dtype=torch.long), torch.full((4,), shape[1]), torch.full((4,), shape[1] + 1))
    assert calls == 2 * SIZES["num_hidden_layers"]


def test_a_prompt_of_one_token_is_read_by_itself() -> None:
    import torch  # noqa: PLC0415  (heavy)
    import transformers  # noqa: PLC0415  (heavy)

    alone = small("Llama")
    with torch.inference_mode():
        expected = alone(input_ids=torch.tensor([[7, 11]])).logits[0, -1]
    for read in (
        Llama(torch, small("Llama"), 2, 8),
        Library(torch, transformers, small("Llama"), 2, 8),
    ):
        read.read(torch.tensor([[7]]), torch.tensor([0]))
        places = torch.tensor([1, 0])
        torch.testing.assert_close(
            read.step(torch.tensor([[11], [0]]), places, places + 1)[0], expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize(
    ("kind", "settings"), [("Llama", {"hidden_act": "gelu"}), ("Llama", {"head_dim": 12}), ("Gemma", {})]
)
def test_other_models_are_left_to_the_library(kind: str, settings: dict[str, Any]) -> None:
    assert not is_llama(small(kind, **settings))


def test_a_model_that_says_nothing_of_heads_is_left_to_the_library() -> None:
    import torch  # noqa: PLC0415  (heavy)

    assert not is_llama(torch.nn.Linear(1, 1))
