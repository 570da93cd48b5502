"""The transformer's forward pass over a batch of sequence segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.lab.attention import Attention
from phasemeter.lab.weights import random_weights

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from phasemeter.lab.kvcache import KVCache
    from phasemeter.lab.shape import ModelShape
    from phasemeter.lab.weights import Floats, Ints, Layer

MAX_ROWS = 512
"""Tokens of one forward pass; longer prompts take several. Bounds the activations' memory."""

_PAUSE_ROWS = 64
"""From this many rows on, a forward pass pauses within and after each layer."""

_CACHED_ROWS = 64
"""Rows gated at a time, few enough to stay in the core's cache over the five passes."""

_NORM_EPSILON = np.float32(1e-5)
_ROPE_BASE = 10000.0


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive new tokens of the sequence in `slot`, the first at position `start`.

    Everything before `start` must be in the cache. `wants_logits` asks for the distribution
    after the last token.
    """

    slot: int
    start: int
    tokens: Ints
    wants_logits: bool


class Model:
    """A transformer with random weights; computes on the calling thread.

    Args:
        shape: Sizes.
        seed: Seed of the weights.
        max_len: Longest sequence, in tokens.
    """

    def __init__(self, shape: ModelShape, seed: int, max_len: int) -> None:
        self.shape = shape
        self._weights = random_weights(shape, seed)
        self._attention = Attention(shape, max_len)
        self._cos, self._sin = _rope_tables(shape.head_dim, max_len)
        self._normed = _scratch(shape.hidden)
        self._qkv = _scratch(shape.qkv_columns)
        self._attended = _scratch(shape.heads * shape.head_dim)
        self._gate_up = _scratch(2 * shape.ffn)
        self._added = _scratch(shape.hidden)

    def forward(self, segments: Sequence[Segment], cache: KVCache) -> Generator[None, None, Floats]:
        """Compute segments of different sequences together, adding their keys and values.

        Pauses (yields) twice in each layer of a large pass, so that the caller can serve its sockets
        meanwhile; nothing is emitted before the pass ends.

        Args:
            segments: At most `MAX_ROWS` tokens in all, one segment a sequence.
            cache: Cache that holds what precedes the segments.

        Returns:
            Logits (segments that want them, vocab), in the order given.
        """
        batch = _Batch(segments)
        pauses = batch.rows >= _PAUSE_ROWS
        x: Floats = self._weights.embedding[batch.tokens]
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]
        for index, layer in enumerate(self._weights.layers):
            self._attend(index, layer, batch, cache, x, cos, sin)
            if pauses:
                yield
            self._feed_forward(layer, x)
            if pauses:
                yield
        last = x[batch.logit_rows]
        _normalise(last, last)
        logits: Floats = last @ self._weights.head
        return logits

    def _attend(
        self,
        index: int,
        layer: Layer,
        batch: _Batch,
        cache: KVCache,
        x: Floats,
        cos: Floats,
        sin: Floats,
    ) -> None:
        shape, rows = self.shape, batch.rows
        normed, qkv, attended = self._normed[:rows], self._qkv[:rows], self._attended[:rows]
        _normalise(x, normed)
        layer.qkv.apply(normed, qkv)
        by_head = qkv.reshape(rows, -1, shape.head_dim)
        kv_from, values_from = shape.heads, shape.heads + shape.kv_heads
        _rotate(by_head[:, :values_from], cos, sin)
        queries = by_head[:, :kv_from].reshape(rows, shape.kv_heads, shape.group, shape.head_dim)
        queries *= np.float32(shape.head_dim**-0.5)
        out = attended.reshape(queries.shape)
        keys, values = by_head[:, kv_from:values_from], by_head[:, values_from:]
        for segment, first in zip(batch.segments, batch.first_rows, strict=True):
            count = len(segment.tokens)
            rows_of = slice(first, first + count)
            end = segment.start + count
            slot_keys = cache.keys[segment.slot, index]
            slot_values = cache.values[segment.slot, index]
            slot_keys[:, :, segment.start : end] = keys[rows_of].transpose(1, 2, 0)
            slot_values[:, segment.start : end] = values[rows_of].transpose(1, 0, 2)
            context = slot_keys[:, :, :end], slot_values[:, :end]
            if count == 1:
                self._attention.one_token(queries[first], *context, out[first])
            else:
                self._attention.prompt(queries[rows_of], *context, out[rows_of])
        added = self._added[:rows]
        layer.attention_out.apply(attended, added)
        x += added

    def _feed_forward(self, layer: Layer, x: Floats) -> None:
        rows, ffn = x.shape[0], self.shape.ffn
        normed, gate_up, added = self._normed[:rows], self._gate_up[:rows], self._added[:rows]
        _normalise(x, normed)
        layer.gate_up.apply(normed, gate_up)
        for first in range(0, rows, _CACHED_ROWS):
            block = gate_up[first : first + _CACHED_ROWS]
            _gate(block[:, :ffn], block[:, ffn:])
        layer.down.apply(gate_up[:, ffn:], added)
        x += added


class _Batch:
    """Segments laid out as rows."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        counts = [len(segment.tokens) for segment in segments]
        ends = np.cumsum(counts)
        self.segments = segments
        self.rows = int(ends[-1])
        self.first_rows = [int(end) - count for end, count in zip(ends, counts, strict=True)]
        self.tokens = np.concatenate([segment.tokens for segment in segments])
        self.positions = np.concatenate(
            [np.arange(s.start, s.start + len(s.tokens)) for s in segments]
        )
        wanted = [segment.wants_logits for segment in segments]
        self.logit_rows = (ends - 1)[wanted]


def _scratch(columns: int) -> Floats:
    return np.empty((MAX_ROWS, columns), dtype=np.float32)


def _rope_tables(head_dim: int, max_len: int) -> tuple[Floats, Floats]:
    """Return cosines and sines as (position, 1, head_dim / 2), the middle axis for the heads."""
    frequencies = _ROPE_BASE ** (-np.arange(0, head_dim, 2) / head_dim)
    angles = np.arange(max_len)[:, None, None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _rotate(x: Floats, cos: Floats, sin: Floats) -> None:
    """Rotate the two halves of each head in place; `x` is (rows, heads, head_dim)."""
    half = x.shape[2] // 2
    low, high = x[:, :, :half], x[:, :, half:]
    turned = low * sin
    low *= cos
    low -= high * sin
    high *= cos
    high += turned


def _gate(gate: Floats, up: Floats) -> None:
    """Replace `up` by `silu(gate) * up`, computed as gate * up / (1 + exp(-gate)); spoils `gate`.

    With unit-scale weights, gates stay far from the range in which exp overflows.
    """
    up *= gate
    np.negative(gate, out=gate)
    np.exp(gate, out=gate)
    gate += np.float32(1.0)
    up /= gate


def _normalise(x: Floats, out: Floats) -> None:
    """Write `x` scaled to unit mean square per row to `out`, which may be `x`."""
    mean_square = np.einsum("ij,ij->i", x, x)
    mean_square /= np.float32(x.shape[1])
    mean_square += _NORM_EPSILON
    np.sqrt(mean_square, out=mean_square)
    np.divide(x, mean_square[:, None], out=out)
