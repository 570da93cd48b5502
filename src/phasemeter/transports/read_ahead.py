"""Reading an asyncio connection while its consumer is busy, so that arrivals are stamped in time.

asyncio streams read from the socket only while somebody awaits a read. A consumer that sleeps between two
chunks would find its own sleep in the arrival times. So once a read's bytes are handed over and the
loop turns without the consumer asking for more, a task reads on, within a bound. A consumer that
comes back at once is served as before and pays for one scheduled call. Where it has done so several
times in a row and reads follow one another within half a millisecond, it pays for less: then the task
begins up to a millisecond later, and what came in between counts as having waited.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context

from phasemeter.core.clock import NS_PER_US
from phasemeter.transports.dropped import run_on
from phasemeter.transports.held_loop import HeldLoop
from phasemeter.transports.read_queue import FOREVER_NS, ReadQueue
from phasemeter.transports.read_watch import watch_of
from phasemeter.transports.stamping import AWAY_NS

AsyncRead = Callable[[int, float | None], Awaitable[bytes]]
"""Reads at most so many bytes within so many seconds; none are the end."""

_READ_BYTES = 65_536
_QUICK_READS = 8
"""Reads in a row after which a consumer came back at once, for it to be looked after by the watch."""
_CLOSE_NS = 500 * NS_PER_US
"""Time between two reads up to which the watch costs less than a scheduled call for each."""


class ReadAhead:
    """Reads of one connection ahead of its consumer, at most one at a time.

    The consumer's own reads are made directly while `is_behind` is False. To be made and used
    on the connection's event loop; `close_body` and the finalizer may be called from any thread.

    Attributes:
        consumer_reads: Set by the consumer as it asks for bytes; False once they were handed over.
        returned_ns: When it last got some.
        is_behind: The consumer is to go through `read`: something was read ahead, or is being read.
        check_is_due: It will be seen soon whether the consumer has gone away; else to be told of each read.
    """

    def __init__(
        self, read_inner: AsyncRead, is_readable: Callable[[], object], now_ns: Callable[[], int]
    ) -> None:
        self._read_inner = read_inner
        self._is_readable = is_readable
        self._now_ns = now_ns
        self._queue = ReadQueue()
        self._loop = asyncio.get_running_loop()
        # Of its own: a context may not be entered twice, and the caller's is not to be kept alive.
        self._context = Context()
        self._task: asyncio.Task[None] | None = None
        self._our_cancels = 0
        self._expired = False
        self._bodies = 0
        self.consumer_reads = False
        self.is_behind = False
        self.check_is_due = False
        self._quick_reads = 0
        self._watch = watch_of(self._loop)
        self._stopped = False
        self._paused = False
        self.returned_ns = now_ns()
        self._due_next_turn = False
        self._due_since_ns = 0
        self._held_loop = HeldLoop()

    def __del__(self) -> None:
        task = self.__dict__.get("_task")
        if task is None or task.done():
            return
        if not self._loop.is_closed():
            with suppress(RuntimeError):  # closed just now
                self._loop.call_soon_threadsafe(task.cancel)
        elif inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CREATED:
            task.get_coro().close()

    @property
    def holds_data(self) -> bool:
        """True when something was read that nobody has asked for yet: bytes, the end or a fault."""
        return bool(self._queue)

    def open_body(self) -> None:
        """Read ahead from now on, when the consumer is busy."""
        self._bodies += 1
        self.handed_over(self._now_ns())

    def close_body(self) -> None:
        """Stop reading ahead, once as often as `open_body` was called. From any thread."""
        run_on(self._loop, self._close_body)

    def handed_over(self, now_ns: int) -> None:
        """The consumer has got bytes; look after the connection if it does not come back at once."""
        # hot: one scheduled call a read, or an append
        self.consumer_reads = False
        since_last_ns = now_ns - self.returned_ns
        self.returned_ns = now_ns
        if self._bodies and not self.check_is_due:
            self.check_is_due = True
            self._due_since_ns = now_ns
            self._due_next_turn = self._quick_reads < _QUICK_READS or since_last_ns > _CLOSE_NS
            if self._due_next_turn:
                self._loop.call_soon(self.check, context=self._context)
            else:
                self._watch.add(self, self._loop)

    def more_handed_over(self, now_ns: int) -> None:
        """The consumer has got another chunk of the last read."""
        if self._bodies and not self.check_is_due:
            self.check_is_due = self._due_next_turn = True
            self._due_since_ns = now_ns
            self._loop.call_soon(self.check, context=self._context)

    async def read(self, most_bytes: int, timeout: float | None) -> tuple[int, bytes, int]:
        """Return the next read: its arrival, its bytes, and how long these may have waited unread.

        Exceptions and timeout are the inner stream's.
        """
        self.consumer_reads = True
        expired = False
        since_last_ns = FOREVER_NS if self._paused else self._now_ns() - self.returned_ns
        try:
            task = self._task
            if task is not None and not self._queue and not task.done():
                expired = await self._adopt(task, timeout)
            if self._queue:
                t_ns, data, unread_ns = self._queue.take(most_bytes)
            else:
                away = since_last_ns >= AWAY_NS and self._is_readable()
                unread_ns = since_last_ns if away else 0
                # A timeout that is over already makes the inner stream raise its own exception.
                data = await self._read_inner(most_bytes, 0.0 if expired else timeout)
                t_ns = self._now_ns()
                self._paused = False
        finally:
            self.consumer_reads = False
            task = self._task
            self.is_behind = (
                self._paused or bool(self._queue) or (task is not None and not task.done())
            )
        if data:
            self.handed_over(self._now_ns())
        return t_ns, data, unread_ns

    async def settle(self) -> None:
        """Cancel a read that is under way and wait until it is over; what it read is kept."""
        task = self._task
        if task is None or task.done() or asyncio._get_running_loop() is not self._loop:
            return
        self._cancel(task)
        await asyncio.wait([task])

    async def stop(self) -> None:
        """Read ahead no more, and settle."""
        self._stopped = True
        await self.settle()

    def arrived(self, outcome: bytes | Exception) -> bool:
        """Take a read of the task's; tell whether it is to go on."""
        t_ns = self._now_ns()
        if self.check_is_due and self._due_next_turn:
            self._note_held_loop(t_ns)
        held_ns = self._held_loop.unread_ns(t_ns)
        self._queue.put(t_ns, outcome, FOREVER_NS if self._paused else held_ns)
        self._paused = self._queue.full
        ended = isinstance(outcome, Exception) or not outcome
        return not (ended or self.consumer_reads or not self._bodies or self._paused)

    def check(self) -> None:
        """The loop has turned: if the consumer did not come back meanwhile, read for it."""
        self.check_is_due = False
        reads_on = self._task is not None and not self._task.done()
        if self.consumer_reads:
            self._quick_reads += 1
            if reads_on and self._due_next_turn:
                self._note_held_loop(self._now_ns())
            return
        self._quick_reads = 0
        if not self._bodies or self._stopped or self._queue.full:
            return
        self._note_held_loop(self._now_ns())
        if reads_on:
            return
        self.is_behind = True
        self._our_cancels = 0
        self._expired = False
        # Not through the loop's task factory: this task is none of the application's.
        self._task = asyncio.Task(
            _read_on(weakref.ref(self), self._read_inner),
            loop=self._loop,
            name="phasemeter read-ahead",
            context=self._context,
        )
        # An abandoned stream's task goes with it, without a word.
        self._task._log_destroy_pending = False  # type: ignore[attr-defined]

    def _note_held_loop(self, now_ns: int) -> None:
        """The loop has turned since the consumer got bytes; see whether it was kept from that for long."""
        if now_ns - self._due_since_ns >= AWAY_NS:
            is_readable = bool(self._is_readable())
            self._held_loop.turned(self._due_since_ns, now_ns, is_readable=is_readable)

    async def _adopt(self, task: asyncio.Task[None], timeout: float | None) -> bool:
        """Wait for the read that is under way; tell whether the timeout came first.

        Waiting for the task itself, so that a cancellation of the caller's ends the read, too.
        """
        caller = asyncio.current_task()
        before = 0 if caller is None else caller.cancelling()
        timer = None if timeout is None else self._loop.call_later(timeout, self._expire, task)
        try:
            await task
        except asyncio.CancelledError:
            callers = caller is not None and caller.cancelling() > before
            if callers or not task.cancelled() or task.cancelling() > self._our_cancels:
                raise
        finally:
            if timer is not None:
                timer.cancel()
        return self._expired

    def _expire(self, task: asyncio.Task[None]) -> None:
        if not task.done() and not task.cancelling():
            self._expired = True
            self._cancel(task)

    def _cancel(self, task: asyncio.Task[None]) -> None:
        if not task.cancelling():
            self._our_cancels = 1
            task.cancel()

    def _close_body(self) -> None:
        self._bodies -= 1
        if not self._bodies and self._task is not None and not self._task.done():
            self._cancel(self._task)


async def _read_on(owner: weakref.ref[ReadAhead], read_inner: AsyncRead) -> None:
    """Read for the owner as long as it wants; keeps it alive at no time while waiting."""
    goes_on = True
    while goes_on:
        outcome: bytes | Exception
        try:
            outcome = await read_inner(_READ_BYTES, None)
        except Exception as error:  # noqa: BLE001  the consumer's to see, at its next read
            outcome = error
        ahead = owner()
        goes_on = ahead is not None and ahead.arrived(outcome)
        del ahead
