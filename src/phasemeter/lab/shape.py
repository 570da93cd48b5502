"""The sizes of the transformer and the arithmetic that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phasemeter.lab.config import ModelSize

FLOAT_BYTES = 4
"""Weights, activations and KV cache are float32."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a llama-like transformer: RMSNorm, RoPE, grouped-query attention, SwiGLU."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return self.heads // self.kv_heads

    @property
    def qkv_columns(self) -> int:
        """Columns of the fused query, key and value projection."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def block_parameters(self) -> int:
        """Parameters in the matrix products of all layers, without the output head."""
        attention = self.hidden * self.qkv_columns + self.heads * self.head_dim * self.hidden
        return self.layers * (attention + 3 * self.hidden * self.ffn)

    def forward_flops(self, new_tokens: int, cached_tokens: int, logit_rows: int) -> int:
        """Return the floating-point operations of one causal forward pass of one sequence.

        Two operations a multiply-add. A token attends to the cached tokens, to the new ones
        before it and to itself; the output head is computed for `logit_rows` rows only.
        """
        attended = new_tokens * cached_tokens + new_tokens * (new_tokens + 1) // 2
        attention = 4 * self.layers * self.heads * self.head_dim * attended
        head = 2 * self.hidden * self.vocab * logit_rows
        return 2 * self.block_parameters * new_tokens + attention + head


VOCAB = 258
"""256 byte values, then begin-of-sequence and end-of-sequence."""

_SHAPES: dict[ModelSize, ModelShape] = {
    "base": ModelShape(
        layers=4, hidden=768, heads=12, kv_heads=4, head_dim=64, ffn=1920, vocab=VOCAB
    ),
    "tiny": ModelShape(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=192, vocab=VOCAB),
}


def shape_of(model_size: ModelSize) -> ModelShape:
    """Return the sizes behind a preset name."""
    return _SHAPES[model_size]
