"""Bytes that waited because the application kept the event loop from turning, and so from reading them."""

from __future__ import annotations

from phasemeter.core.clock import NS_PER_MS

_TAKEN_BY_LOOP_NS = NS_PER_MS


class HeldLoop:
    """How long the bytes of the next read may have waited for the loop.

    Some loops (uvloop) take bytes from the socket before anybody can look for them there. So what is read
    within a millisecond after the loop turned again was there before, as far as one can tell. An
    application that lets the loop turn for a moment only has held it up all the time.
    """

    __slots__ = ("_began_ns", "_seen_to_wait", "_turned_ns")

    def __init__(self) -> None:
        self._began_ns: int | None = None
        self._turned_ns = 0
        self._seen_to_wait = False

    def turned(self, began_ns: int, now_ns: int, *, is_readable: bool) -> None:
        """The loop turned after it had been held up.

        Args:
            began_ns: When it turned before, at the latest.
            now_ns: The time.
            is_readable: Bytes wait in the socket.
        """
        if self._began_ns is None or began_ns - self._turned_ns > _TAKEN_BY_LOOP_NS:
            self._began_ns = began_ns
            self._seen_to_wait = False
        self._seen_to_wait = self._seen_to_wait or is_readable
        self._turned_ns = now_ns

    def unread_ns(self, t_ns: int) -> int:
        """Return how long the bytes of a read at `t_ns` may have waited, and begin anew."""
        began_ns, self._began_ns = self._began_ns, None
        if began_ns is None:
            return 0
        waited = self._seen_to_wait or t_ns - self._turned_ns < _TAKEN_BY_LOOP_NS
        return t_ns - began_ns if waited else 0
