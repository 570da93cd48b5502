"""The async half of `direct_read`: anyio's stream is awaited with one timer for many reads.

A timer of its own for each read, made and cancelled again a few milliseconds later, costs more than the read.
Here the timer of an earlier read stays: when it runs out, it is set anew to when the present read is due.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from contextvars import Context
from types import TracebackType
from typing import Protocol, cast

from phasemeter.transports.direct_read import library_errors
from phasemeter.transports.network import AsyncNetworkStream, NetworkErrors


class _ByteStream(Protocol):
    """What is used of anyio's streams, plain and TLS."""

    async def receive(self, max_bytes: int) -> bytes: ...


class _StreamErrors(Protocol):
    """The exceptions of anyio, as far as its streams raise them."""

    EndOfStream: type[Exception]
    BrokenResourceError: type[Exception]
    ClosedResourceError: type[Exception]


class ReadDeadline:
    """Makes a read that takes too long raise TimeoutError. For one read at a time, on one event loop.

    Entered around the awaiting of a read. As `asyncio.timeout` does, it cancels the task and takes that
    cancellation back; a cancellation by anybody else goes on.

    Attributes:
        task: The task whose read is under way; None between reads.
    """

    __slots__ = (
        "__weakref__",
        "_cancelling",
        "_context",
        "_due_s",
        "_expired",
        "_loop",
        "_timer",
        "_timer_due_s",
        "task",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task: asyncio.Task[object] | None = None
        self._loop = loop
        # Of its own: the loop keeps it with the timer, and the caller's is not to be kept alive.
        self._context = Context()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_s = 0.0
        self._due_s = 0.0
        self._cancelling = 0
        self._expired = False

    def set(self, timeout_s: float, task: asyncio.Task[object]) -> None:
        """Set what is entered next: how long the read may take, and the task that makes it."""
        self.task = task
        self._cancelling = task.cancelling()
        self._due_s = due_s = self._loop.time() + timeout_s
        if self._timer is None or due_s < self._timer_due_s:
            self._arm(due_s)

    def cancel(self) -> None:
        """Put the timer away; there will be no more reads."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self.task = self.task, None
        if self._expired and task is not None:
            self._expired = False
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _arm(self, due_s: float) -> None:
        self.cancel()
        self._timer_due_s = due_s
        self._timer = self._loop.call_at(due_s, _look, weakref.ref(self), context=self._context)

    def _look(self) -> None:
        self._timer = None
        if self.task is None or self._expired:
            return
        if self._loop.time() < self._due_s:
            self._arm(self._due_s)
            return
        self._expired = True
        self.task.cancel()


def _look(deadline: weakref.ref[ReadDeadline]) -> None:
    alive = deadline()
    if alive is not None:
        alive._look()


class DirectAsyncRead:
    """Reads a stream of httpcore's or httpcore2's own through anyio.

    Args:
        inner: The stream.
        errors: The library's exceptions.
        loop: The loop that runs now.
    """

    def __init__(
        self, inner: AsyncNetworkStream, errors: NetworkErrors, loop: asyncio.AbstractEventLoop
    ) -> None:
        anyio = cast(_StreamErrors, sys.modules["anyio"])
        self._inner = inner
        self._receive = cast(_ByteStream, inner._stream).receive  # type: ignore[attr-defined]
        self._deadline = ReadDeadline(loop)
        self._end = anyio.EndOfStream
        self._lost = (anyio.BrokenResourceError, anyio.ClosedResourceError)
        self._read_timeout, self._read_error = errors.ReadTimeout, errors.ReadError

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return at most so many bytes; none at the end.

        Raises:
            ReadTimeout: The library's, if nothing came within the timeout.
            ReadError: The library's, if the connection was lost or closed.
        """
        # hot
        deadline = self._deadline
        try:
            if timeout is None:
                return await self._receive(max_bytes)
            task = asyncio.current_task()
            if task is None or timeout <= 0 or deadline.task is not None:
                return await self._inner.read(max_bytes, timeout)
            deadline.set(timeout, task)
            with deadline:
                return await self._receive(max_bytes)
        except self._end:
            return b""
        except TimeoutError as error:
            raise self._read_timeout(error) from error
        except self._lost as error:
            raise self._read_error(error) from error

    def close(self) -> None:
        """There will be no more reads."""
        self._deadline.cancel()


def direct_async_read(inner: AsyncNetworkStream) -> DirectAsyncRead | None:
    """Return what reads a stream on the loop that runs now; None for one to be read by its `read`."""
    errors = library_errors(inner, "_backends.anyio", "AnyIOStream")
    if errors is None or not hasattr(getattr(inner, "_stream", None), "receive"):
        return None
    return DirectAsyncRead(inner, errors, asyncio.get_running_loop())
