"""The KV hand-off: a prefill engine publishes slots, a decode engine copies them one-sidedly.

The prefill engine's whole cache lies in a segment behind a small table. The decode engine reads
both without the prefill engine's help, which may be in the middle of a long step, as with RDMA.
Each table word has one writer: the owner writes which ticket a slot holds, the reader writes which
ticket it has taken. A reader checks the ticket again after the copy, so that memory reused during
the copy, after an expired lease, is never taken for good.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.lab.kvcache import KVCache
from phasemeter.lab.segment import (
    OwnedSegment,
    open_segment,
    remove_stale_segments,
    segment_exists,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from phasemeter.lab.request import RemoteKV, Request
    from phasemeter.lab.shape import ModelShape
    from phasemeter.lab.weights import Ints

_MAGIC = 0x706D6C61623031  # layout version 1
_TABLE_BYTES = 16384  # head and 256 slots of 32 bytes, in whole pages
_HELD, _TAKEN, _TOKENS, _PROMPT = range(4)
_NOTHING = 0


class HandoffError(Exception):
    """A KV cache could not be pulled; the message says why."""


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") | 1  # never _NOTHING


def _prompt_digest(prompt: Ints) -> int:
    return _digest(prompt.tobytes())


class _Table:
    """The words in front of a shared cache."""

    def __init__(self, buffer: memoryview) -> None:
        words: NDArray[np.uint64] = np.frombuffer(buffer[:_TABLE_BYTES], dtype=np.uint64)
        self.head = words[:4]  # magic, model digest, slots, max_len
        self.slots = words[4 : 4 + 4 * 256].reshape(256, 4)


class PublishedCache:
    """A prefill engine's KV cache in shared memory, with the slots held for others.

    Args:
        shape: Sizes of the model.
        seed: Seed of its weights; a reader with other weights is refused.
        slots: Sequences that fit at a time.
        max_len: Tokens a slot holds.
        lease_ns: How long a slot is held at most.

    Raises:
        ValueError: There is not enough shared memory.
    """

    def __init__(
        self, shape: ModelShape, seed: int, slots: int, max_len: int, lease_ns: int
    ) -> None:
        remove_stale_segments()
        size_bytes = KVCache.size_bytes(shape, slots, max_len)
        self._segment = OwnedSegment(_TABLE_BYTES + size_bytes)
        self._table = _Table(self._segment.buffer)
        self.cache = KVCache(shape, slots, max_len, self._segment.buffer[_TABLE_BYTES:])
        self._lease_ns = lease_ns
        self._expiry_ns: dict[int, int] = {}
        self.expired_total = 0
        self._table.head[:] = (_MAGIC, _model_digest(shape, seed), slots, max_len)

    @property
    def engine_id(self) -> str:
        """Name under which a decode engine finds this cache."""
        return self._segment.name

    def hold(self, slot: int, request: Request, now_ns: int) -> None:
        """Offer a prefilled slot to whoever knows the request's internal id."""
        words = self._table.slots[slot]
        words[_TOKENS] = len(request.prompt)
        words[_PROMPT] = _prompt_digest(request.prompt)
        words[_HELD] = _digest(request.internal_id.encode())
        self._expiry_ns[slot] = now_ns + self._lease_ns

    def collect_freed(self, now_ns: int) -> list[int]:
        """Return the slots that were taken or whose lease has run out, and stop offering them."""
        freed = []
        for slot, expiry_ns in list(self._expiry_ns.items()):
            words = self._table.slots[slot]
            taken = words[_TAKEN] == words[_HELD]
            if taken or now_ns >= expiry_ns:
                self.expired_total += not taken
                words[_HELD] = _NOTHING
                del self._expiry_ns[slot]
                freed.append(slot)
        return freed

    @property
    def held_slots(self) -> int:
        """Slots now held for a decode engine."""
        return len(self._expiry_ns)

    @property
    def held_tokens(self) -> int:
        """Tokens in those slots."""
        return sum(int(self._table.slots[slot, _TOKENS]) for slot in self._expiry_ns)

    def close(self) -> None:
        """Remove the shared memory. Idempotent."""
        self._segment.close()


class _RemoteCache:
    """Another engine's cache, mapped."""

    def __init__(self, buffer: memoryview, shape: ModelShape, seed: int) -> None:
        table = _Table(buffer)
        magic, model, slots, max_len = (int(word) for word in table.head)
        if magic != _MAGIC or model != _model_digest(shape, seed):
            msg = "the prefill instance runs another model: give both the same size and seed"
            raise HandoffError(msg)
        self.slots = table.slots[:slots]
        self.cache = KVCache(shape, slots, max_len, buffer[_TABLE_BYTES:], is_new=False)


class KVPuller:
    """Copies held slots of prefill engines on this machine into a local cache."""

    def __init__(self, shape: ModelShape, seed: int, cache: KVCache) -> None:
        self._shape = shape
        self._seed = seed
        self._cache = cache
        self._remotes: dict[str, _RemoteCache] = {}

    def pull(self, source: RemoteKV, prompt: Ints, slot: int) -> None:
        """Copy the KV cache of `prompt` into `slot` and tell the owner that it may reuse its slot.

        Raises:
            HandoffError: Unknown engine, model, slot or ticket; expired; or another prompt.
        """
        remote = self._open(source.engine_id)
        if not 0 <= source.slot < len(remote.slots):
            msg = f"remote_block_ids names slot {source.slot}, which does not exist"
            raise HandoffError(msg)
        words = remote.slots[source.slot]
        ticket = _digest(source.request_id.encode())
        _require_held(words, ticket)
        if words[_TOKENS] != len(prompt) or words[_PROMPT] != _prompt_digest(prompt):
            msg = "the prefill instance computed another prompt than the one sent here"
            raise HandoffError(msg)
        for _ in self._cache.copy_slot(slot, remote.cache, source.slot, len(prompt)):
            pass
        _require_held(words, ticket)
        words[_TAKEN] = ticket

    def _open(self, engine_id: str) -> _RemoteCache:
        for name in [name for name in self._remotes if not segment_exists(name)]:
            del self._remotes[name]
        if engine_id not in self._remotes:
            buffer = open_segment(engine_id)
            if buffer is None:
                msg = f"no prefill instance {engine_id!r} on this machine: it may have exited"
                raise HandoffError(msg)
            self._remotes[engine_id] = _RemoteCache(buffer, self._shape, self._seed)
        return self._remotes[engine_id]


def _model_digest(shape: ModelShape, seed: int) -> int:
    return _digest(f"{shape} {seed}".encode())


def _require_held(words: NDArray[np.uint64], ticket: int) -> None:
    if words[_HELD] != ticket or words[_TAKEN] == ticket:
        msg = "the KV cache is not held any more: its lease expired, or it was already pulled"
        raise HandoffError(msg)
