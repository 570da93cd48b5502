"""One timer for the busy connections of an event loop whose consumers are known to come back at once.

To see whether a consumer has gone away takes a scheduled call for each read, and nearly every time it has
not. A connection whose reads follow one another closely and whose consumer came back at once several
times in a row is looked at by this timer instead, within a millisecond. A timer costs three times as
much as a call, but there is one for many reads and all connections.
"""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from phasemeter.core.errors import guard

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_TICK_S = 0.001


class Watched(Protocol):
    """What is looked after."""

    def check(self) -> None:
        """See whether the consumer has gone away."""
        ...


class ReadWatch:
    """Checks what was added, once, a tick after the first was added. To be used on its loop only."""

    __slots__ = ("__weakref__", "_context", "_due")

    def __init__(self) -> None:
        self._due: list[Watched] = []
        self._context = Context()

    def add(self, watched: Watched, loop: AbstractEventLoop) -> None:
        """Have something checked with the next tick."""
        # hot
        self._due.append(watched)
        if len(self._due) == 1:
            loop.call_later(_TICK_S, self._tick, context=self._context)

    def _tick(self) -> None:
        due, self._due = self._due, []
        for watched in due:
            with guard("looking after a connection"):
                watched.check()


_WATCHES: WeakKeyDictionary[AbstractEventLoop, ReadWatch] = WeakKeyDictionary()


def watch_of(loop: AbstractEventLoop) -> ReadWatch:
    """Return the watch of a loop, made at first use and gone with it."""
    watch = _WATCHES.get(loop)
    if watch is None:
        watch = _WATCHES[loop] = ReadWatch()
    return watch
