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
    """A first-in-first-out of reads: arrival, bytes (or an exception), and how long they may have waited."""

    __slots__ = ("_bytes", "_reads")

    def __init__(self) -> None:
        self._reads: deque[tuple[int, bytes | Exception, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._reads)

    @property
    def full(self) -> bool:
        """True when nothing more should be read before something is taken."""
        return self._bytes >= _MOST_BYTES

    def put(self, t_ns: int, outcome: bytes | Exception, unread_ns: int = 0) -> None:
        """Add a read.

        Args:
            t_ns: Its time.
            outcome: Its bytes (empty: the peer has closed), or the exception that it ended in.
            unread_ns: How long nobody had been reading before, if bytes may have come then; else 0.
        """
        self._reads.append((t_ns, outcome, unread_ns))
        self._bytes += _size(outcome)

    def take(self, most_bytes: int) -> tuple[int, bytes, int]:
        """Remove and return the oldest read, or as much of it as is wanted: time, bytes, unread_ns.

        Raises:
            Exception: The one that the read ended in.
        """
        t_ns, outcome, unread_ns = self._reads.popleft()
        self._bytes -= _size(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        if len(outcome) > most_bytes:
            rest = outcome[most_bytes:]
            self._reads.appendleft((t_ns, rest, unread_ns))
            self._bytes += _size(rest)
            return t_ns, outcome[:most_bytes], unread_ns
        return t_ns, outcome, unread_ns


def _size(outcome: bytes | Exception) -> int:
    return _READ_ITSELF_BYTES + (len(outcome) if isinstance(outcome, bytes) else 0)
