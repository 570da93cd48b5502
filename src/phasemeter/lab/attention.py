"""Causal attention over the slotted KV cache: one kernel for decode rows, one for prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from phasemeter.lab.shape import ModelShape
    from phasemeter.lab.weights import Floats

QUERY_BLOCK = 128
"""Prompt tokens attended at a time: bounds the score matrix to group x 128 x context floats."""

_HIDDEN_SCORE = np.float32(-1e30)


class Attention:
    """Attention kernels with their scratch memory; not re-entrant.

    Queries arrive already scaled by `head_dim ** -0.5`.
    """

    def __init__(self, shape: ModelShape, max_len: int) -> None:
        self._shape = shape
        rows = shape.group * QUERY_BLOCK
        self._scores: Floats = np.empty(rows * max_len, dtype=np.float32)
        self._queries: Floats = np.empty((rows, shape.head_dim), dtype=np.float32)
        block = np.ones((QUERY_BLOCK, QUERY_BLOCK), dtype=np.float32)
        self._future: Floats = np.triu(block, k=1) * _HIDDEN_SCORE

    def one_token(self, queries: Floats, keys: Floats, values: Floats, out: Floats) -> None:
        """Attend one new token of one sequence to its whole context, itself included.

        Args:
            queries: (kv head, group, head_dim).
            keys: (kv head, head_dim, context).
            values: (kv head, context, head_dim).
            out: (kv head, group, head_dim), overwritten.
        """
        kv_heads, _, context = keys.shape
        group = self._shape.group
        scores = self._scores[: kv_heads * group * context].reshape(kv_heads, group, context)
        np.matmul(queries, keys, out=scores)
        sums = _exponentiate(scores)
        np.matmul(scores, values, out=out)
        out /= sums

    def prompt(self, queries: Floats, keys: Floats, values: Floats, out: Floats) -> None:
        """Attend the last `tokens` tokens of a sequence, each to what came before and itself.

        Args:
            queries: (tokens, kv head, group, head_dim).
            keys: (kv head, head_dim, context), the new tokens included.
            values: (kv head, context, head_dim).
            out: (tokens, kv head, group, head_dim), overwritten.
        """
        tokens, context = queries.shape[0], keys.shape[2]
        cached = context - tokens
        for first in range(0, tokens, QUERY_BLOCK):
            last = min(first + QUERY_BLOCK, tokens)
            seen = cached + last
            for head in range(keys.shape[0]):
                block = queries[first:last, head]
                result = self._prompt_block(block, keys[head, :, :seen], values[head, :seen])
                out[first:last, head] = result

    def _prompt_block(self, queries: Floats, keys: Floats, values: Floats) -> Floats:
        """Return (rows, group, head_dim) for rows whose last one sees all the keys given."""
        rows, group, head_dim = queries.shape
        context = keys.shape[1]
        packed = self._queries[: rows * group]
        packed.reshape(group, rows, head_dim)[...] = queries.transpose(1, 0, 2)
        scores = self._scores[: rows * group * context].reshape(rows * group, context)
        np.matmul(packed, keys, out=scores)
        by_group = scores.reshape(group, rows, context)
        by_group[:, :, context - rows :] += self._future[:rows, :rows]
        sums = _exponentiate(scores)
        result = np.matmul(scores, values)
        result /= sums
        by_row: Floats = result.reshape(group, rows, head_dim).transpose(1, 0, 2)
        return by_row


def _exponentiate(scores: Floats) -> Floats:
    """Replace scores by the numerators of their softmax; return the row sums, last axis kept.

    The division is left to the caller, who has head_dim numbers a row to divide, not `context`.
    """
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    sums: Floats = scores.sum(axis=-1, keepdims=True)
    return sums
