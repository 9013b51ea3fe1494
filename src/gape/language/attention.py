"""Attention of one new token in every slot to what stands in the slot before it, read once and where it lies."""

from typing import Any

NAME = "gape_slots"  # under which the library knows it


def attend_to_slots(torch: Any, transformers: Any, model: Any) -> None:
    """Have a model attend as `gape.language.slots` needs it: prompts causally, single tokens to their own slot.

    In place of a mask it is told how many tokens each row reads, (n, 1, 1, 1).
    """
    if model.config.get_text_config()._attn_implementation == NAME:
        return
    kernel = slot_kernel() if model.device.type == "cuda" else None

    def attend(
        module: Any,  # noqa: ARG001  (the library's signature)
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any,
        scaling: float | None = None,
        **_: Any,
    ) -> tuple[Any, None]:
        usual = torch.nn.functional.scaled_dot_product_attention
        rows, heads, tokens, width = query.shape
        if tokens > 1:
            out = usual(query, key, value, is_causal=True, scale=scaling, enable_gqa=heads != key.shape[1])
            return out.transpose(1, 2), None
        scale = width**-0.5 if scaling is None else scaling
        # For one new token, heads that share keys are as good as several tokens of one head.
        grouped = query.view(rows, key.shape[1], heads // key.shape[1], width)
        if kernel is not None and width == value.shape[3]:
            out = kernel(grouped, key, value, attention_mask, scale)
        else:
            seen = torch.arange(key.shape[2], device=key.device) < attention_mask
            out = usual(grouped, key, value, attn_mask=seen, scale=scale)
        return out.reshape(rows, 1, heads, value.shape[3]), None

    transformers.AttentionInterface.register(NAME, attend)
    transformers.AttentionMaskInterface.register(NAME, lambda *_, **__: None)
    model.set_attn_implementation(NAME)


def slot_kernel() -> Any:
    """Return the attention of slots as a Triton kernel; None where there is no Triton."""
    try:
        from gape.language.kernels import attention  # noqa: PLC0415  (Triton comes with torch for GPUs alone)
    except ImportError:
        return None
    return attention
