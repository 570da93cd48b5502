"""Reads that were made before the consumer asked for them, in order, each with its arrival."""

from __future__ import annotations

from collections import deque

_MOST_BYTES = 512 * 1024
"""Where reading ahead stops: some 1,200 events of a chat stream, or eight full reads."""
_READ_ITSELF_BYTES = 128
"""What one read takes besides its bytes."""
FOREVER_NS = 1 << 62
"""Time away of a consumer that let the queue fill up: what is read next may have waited that long."""


class ReadQueue:
    """A first-in-first-out of reads: arrival, bytes (or an exception), and whether they had waited."""

    __slots__ = ("_bytes", "_reads")

    def __init__(self) -> None:
        self._reads: deque[tuple[int, bytes | Exception, bool]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._reads)

    @property
    def full(self) -> bool:
        """True when nothing more should be read before something is taken."""
        return self._bytes >= _MOST_BYTES

    def put(self, t_ns: int, outcome: bytes | Exception, *, waited: bool = False) -> None:
        """Add a read.

        Args:
            t_ns: Its time.
            outcome: Its bytes (empty: the peer has closed), or the exception that it ended in.
            waited: Nobody had been reading when the bytes came.
        """
        self._reads.append((t_ns, outcome, waited))
        self._bytes += _size(outcome)

    def take(self, most_bytes: int) -> tuple[int, bytes, bool]:
        """Remove and return the oldest read, or as much of it as is wanted: time, bytes, waited.

        Raises:
            Exception: The one that the read ended in.
        """
        t_ns, outcome, waited = self._reads.popleft()
        self._bytes -= _size(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        if len(outcome) > most_bytes:
            rest = outcome[most_bytes:]
            self._reads.appendleft((t_ns, rest, waited))
            self._bytes += _size(rest)
            return t_ns, outcome[:most_bytes], waited
        return t_ns, outcome, waited


def _size(outcome: bytes | Exception) -> int:
    return _READ_ITSELF_BYTES + (len(outcome) if isinstance(outcome, bytes) else 0)
