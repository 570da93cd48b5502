"""Work that a sink puts off so that the end of a stream never holds an event loop for long.

A telemetry record costs about 15 us, and a response may have thousands of samples. Under a running asyncio
loop they are worked off in short slices between the loop's other callbacks; without one there is nobody
to hold up and they are done at once. No threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context
from threading import RLock
from typing import TYPE_CHECKING, Generic, TypeVar

from phasemeter.core.clock import NS_PER_US, now_ns
from phasemeter.core.errors import guard
from phasemeter.transports.dropped import running_loop

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

ItemT = TypeVar("ItemT")

_SLICE_NS = 200 * NS_PER_US
_MAX_SAMPLES = 500_000


class Backlog(Generic[ItemT]):
    """A queue of jobs, each an iterable of items, and the function that works one item off. Thread-safe.

    A job's items are made when their turn comes, so making them counts as work too.

    Args:
        work: Works one item off; to be quick, as an item is never cut.
        slice_ns: How long a turn of the event loop may be used.
        least_samples: Begin only when so many samples wait: what is done together costs less.

    Attributes:
        dropped: Samples that were refused because half a million were waiting.
    """

    def __init__(
        self, work: Callable[[ItemT], None], slice_ns: int = _SLICE_NS, *, least_samples: int = 0
    ) -> None:
        self.dropped = 0
        self._least_samples = least_samples
        self._work = work
        self._slice_ns = slice_ns
        self._jobs: deque[tuple[Iterator[ItemT], int]] = deque()
        self._waiting_samples = 0
        self._lock = RLock()
        self._scheduled_on: AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, items: Iterable[ItemT], samples: int) -> None:
        """Take a job of about so many samples.

        Once enough of them wait, the jobs are done: now, or soon where an asyncio loop is running.
        """
        with self._lock:
            if self._waiting_samples + samples > _MAX_SAMPLES:
                self.dropped += samples
                return
            self._waiting_samples += samples
            self._jobs.append((iter(items), samples))
        if self._waiting_samples < self._least_samples:
            return
        loop = running_loop()
        if loop is None:
            self.drain()
        elif self._scheduled_on is not loop:
            self._schedule(loop)

    def drain(self) -> None:
        """Work everything off now."""
        with self._lock:
            self._work_off(None)

    def _schedule(self, loop: AbstractEventLoop) -> None:
        self._scheduled_on = loop
        loop.call_soon(self._turn, loop, context=Context())

    def _turn(self, loop: AbstractEventLoop) -> None:
        self._scheduled_on = None
        with self._lock:
            self._work_off(now_ns() + self._slice_ns)
        if self._jobs and self._scheduled_on is None:
            self._schedule(loop)

    def _work_off(self, deadline_ns: int | None) -> None:
        """Do jobs until the deadline; one item at least."""
        while self._jobs:
            job, samples = self._jobs.popleft()
            with guard("recording samples"):
                for item in job:
                    self._work(item)
                    if deadline_ns is not None and now_ns() >= deadline_ns:
                        self._jobs.appendleft((job, samples))
                        return
            self._waiting_samples -= samples
