"""How long each callback holds an asyncio event loop."""

from __future__ import annotations

import asyncio
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time_ns

from phasemeter.core.clock import now_ns


class Holds:
    """Times of the callbacks of a loop, in order, in ns.

    Attributes:
        wall_ns: How long the loop was held.
        cpu_ns: CPU time of it, which other threads and processes do not lengthen.
    """

    def __init__(self) -> None:
        self.wall_ns: list[int] = []
        self.cpu_ns: list[int] = []


@contextmanager
def watched_holds() -> Iterator[Holds]:
    """Time every callback of every loop of this process meanwhile."""
    holds = Holds()
    run = Handle._run

    def timed_run(handle: Handle) -> None:
        cpu_ns, wall_ns = thread_time_ns(), now_ns()
        run(handle)
        holds.wall_ns.append(now_ns() - wall_ns)
        holds.cpu_ns.append(thread_time_ns() - cpu_ns)

    Handle._run = timed_run  # type: ignore[method-assign]
    try:
        yield holds
    finally:
        Handle._run = run  # type: ignore[method-assign]


async def until_idle(loop: asyncio.AbstractEventLoop) -> None:
    """Wait until nothing is ready to run but the caller."""
    await asyncio.sleep(0)
    while loop._ready:  # type: ignore[attr-defined]  # noqa: ASYNC110  its own turns
        await asyncio.sleep(0)
