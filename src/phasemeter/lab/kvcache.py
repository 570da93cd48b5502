"""The KV cache: a fixed number of slots, each with room for the longest sequence."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.lab.shape import FLOAT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from phasemeter.lab.shape import ModelShape
    from phasemeter.lab.weights import Floats

_ROW_PADDING = 16
"""Floats added to a row of keys, so that rows do not all fall into the same cache sets."""


class KVCache:
    """Keys and values of all slots, in a given buffer.

    `keys` is (slot, layer, kv head, head_dim, token): a query meets all keys in one streaming
    matrix product, without a transpose. `values` is (slot, layer, kv head, token, head_dim).

    All memory is written once at construction, as real engines reserve theirs: a page's first
    write is a hundred times dearer than the next, and no request shall pay for it.

    Args:
        shape: Sizes of the model.
        slots: Sequences that fit at a time.
        max_len: Tokens a slot holds.
        buffer: Writable memory of `size_bytes(...)` bytes.
        is_new: Whether to write all of it; not so for another engine's cache.
    """

    def __init__(
        self,
        shape: ModelShape,
        slots: int,
        max_len: int,
        buffer: memoryview,
        *,
        is_new: bool = True,
    ) -> None:
        self.slots = slots
        self.max_len = max_len
        key_shape = (slots, shape.layers, shape.kv_heads, shape.head_dim, max_len + _ROW_PADDING)
        value_shape = (slots, shape.layers, shape.kv_heads, max_len, shape.head_dim)
        flat = np.frombuffer(buffer, dtype=np.float32)
        if is_new:
            flat[:] = 0.0
        key_count = int(np.prod(key_shape))
        self.keys: Floats = flat[:key_count].reshape(key_shape)
        self.values: Floats = flat[key_count:].reshape(value_shape)

    @classmethod
    def private(cls, shape: ModelShape, slots: int, max_len: int) -> KVCache:
        """Return a cache in memory of this process alone.

        Raises:
            ValueError: The machine has not so much memory.
        """
        size_bytes = cls.size_bytes(shape, slots, max_len)
        machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size_bytes > machine_bytes:
            msg = (
                f"the KV cache needs {size_bytes / 2**20:.0f} MiB, the machine has "
                f"{machine_bytes / 2**20:.0f} MiB; lower max_num_seqs or max_model_len"
            )
            raise ValueError(msg)
        # Not numpy's own memory: that asks for huge pages, whose first write is far dearer.
        return cls(shape, slots, max_len, memoryview(mmap.mmap(-1, size_bytes)))

    @staticmethod
    def size_bytes(shape: ModelShape, slots: int, max_len: int) -> int:
        """Return the bytes that a cache of these sizes needs."""
        rows = slots * shape.layers * shape.kv_heads * shape.head_dim
        return rows * (2 * max_len + _ROW_PADDING) * FLOAT_BYTES

    def copy_slot(self, slot: int, source: KVCache, source_slot: int, tokens: int) -> Iterator[int]:
        """Copy the first `tokens` tokens of a slot, layer by layer; yield each layer when done."""
        for layer in range(self.keys.shape[1]):
            keys = source.keys[source_slot, layer, :, :, :tokens]
            self.keys[slot, layer, :, :, :tokens] = keys
            values = source.values[source_slot, layer, :, :tokens]
            self.values[slot, layer, :, :tokens] = values
            yield layer
