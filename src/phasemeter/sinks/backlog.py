"""Work that a sink puts off so that the end of a stream never holds an event loop for long.

A histogram sample costs about 2 us and a telemetry record about 15 us, and a response may have a thousand
of them. Under a running asyncio loop they are worked off in slices between the loop's other callbacks;
without one there is nobody to hold up and they are done at once. No threads.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from threading import RLock
from typing import TYPE_CHECKING, Generic, TypeVar

from phasemeter.core.errors import guard

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

ItemT = TypeVar("ItemT")

_MAX_ITEMS = 500_000


class Backlog(Generic[ItemT]):
    """A queue of items and the function that works one off. Thread-safe.

    Args:
        work: Works one item off.
        slice_items: Items between two turns of the event loop.

    Attributes:
        dropped: Items that were refused because half a million were waiting.
    """

    def __init__(self, work: Callable[[ItemT], None], slice_items: int) -> None:
        self.dropped = 0
        self._work = work
        self._slice_items = slice_items
        self._items: deque[ItemT] = deque()
        self._lock = RLock()
        self._scheduled_on: AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._items)

    def add(self, items: Iterable[ItemT]) -> None:
        """Take items; work them off now, or soon where an asyncio loop is running here."""
        for item in items:
            if len(self._items) >= _MAX_ITEMS:
                self.dropped += 1
            else:
                self._items.append(item)
        loop = _running_loop()
        if loop is None:
            self.drain()
        elif self._scheduled_on is not loop:
            self._schedule(loop)

    def drain(self) -> None:
        """Work everything off now."""
        with self._lock:
            while self._items:
                self._work_off(self._slice_items)

    def _schedule(self, loop: AbstractEventLoop) -> None:
        self._scheduled_on = loop
        loop.call_soon(self._turn, loop, context=Context())

    def _turn(self, loop: AbstractEventLoop) -> None:
        self._scheduled_on = None
        with guard("recording samples"), self._lock:
            self._work_off(self._slice_items)
        if self._items and self._scheduled_on is None:
            self._schedule(loop)

    def _work_off(self, limit: int) -> None:
        for _ in range(limit):
            try:
                item = self._items.popleft()
            except IndexError:
                return
            self._work(item)


def _running_loop() -> AbstractEventLoop | None:
    asyncio = sys.modules.get("asyncio")
    return None if asyncio is None else asyncio._get_running_loop()
