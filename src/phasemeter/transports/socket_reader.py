"""Reads a socket on an asyncio loop as soon as bytes arrive, within a bound, for a consumer to come."""

from __future__ import annotations

import asyncio
import select
import socket
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context

from phasemeter.transports.arrivals import Arrivals
from phasemeter.transports.dropped import run_on
from phasemeter.transports.read_queue import FOREVER_NS, ReadQueue
from phasemeter.transports.stamping import AWAY_NS

_READ_BYTES = 65_536


class SocketReader:
    """The reads of one connection. The socket becomes the reader's own.

    To be made and used on the connection's event loop; `close_body` and the finalizer may be called
    from any thread. It reads while somebody waits, and between `open_body` and `close_body`.

    Attributes:
        arrivals: Where the times come from.
    """

    def __init__(self, sock: socket.socket, now_ns: Callable[[], int]) -> None:
        sock.settimeout(0)
        self.arrivals = Arrivals(sock, now_ns)
        self._now_ns = now_ns
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        # The loop keeps the context that a reader is added in: not one with the application's values.
        self._context = Context()
        self._queue = ReadQueue()
        self._waiter: asyncio.Future[None] | None = None
        self._bodies = 0
        self._watched = False
        self._ended = False
        self._paused = False
        self._look_is_due = False
        self._returned_ns = now_ns()
        self._look_due_since_ns = 0
        self._held_ns = 0

    def __del__(self) -> None:
        sock: socket.socket | None = self.__dict__.get("_socket")
        if sock is None or sock.fileno() < 0:
            return
        if self.__dict__.get("_watched") and not self._loop.is_closed():
            with suppress(RuntimeError):  # closed just now
                self._loop.call_soon_threadsafe(_let_go, self._loop, sock)
                return
        sock.close()

    @property
    def holds_data(self) -> bool:
        """True when something was read that nobody has asked for yet: bytes, the end or a fault."""
        return bool(self._queue)

    def open_body(self) -> None:
        """Read whatever arrives from now on."""
        self._bodies += 1
        self._watch()

    def close_body(self) -> None:
        """Read only when asked, once as often as `open_body` was called. From any thread."""
        run_on(self._loop, self._close_body)

    async def read(self, timeout: float | None) -> tuple[int, bytes, int]:
        """Return the next read: its arrival, its bytes, and how long these may have waited unread.

        No bytes mean that the peer has closed. The consumer has been away since its last read; bytes
        waited where they came meanwhile and were not read ahead.

        Raises:
            TimeoutError: If nothing came for so long.
            OSError: What the socket raised.
        """
        asked_ns = 0
        if not self._queue:
            asked_ns = self._now_ns()
            await self._wait(timeout)
        t_ns, data, unread_ns = self._queue.take(_READ_BYTES)
        self._watch()
        if t_ns < asked_ns:
            unread_ns = max(unread_ns, asked_ns - self._returned_ns)
        self._returned_ns = self._now_ns()
        self._look_soon(self._returned_ns)
        return t_ns, data, unread_ns

    def more_handed_over(self) -> None:
        """The consumer has got another chunk of the last read."""
        self._look_soon(self._now_ns())

    def time_left(self, timeout: float | None) -> Callable[[], float | None]:
        """Return a function that tells how much of a timeout that begins now is left."""
        if timeout is None:
            return lambda: None
        ends = self._loop.time() + timeout
        return lambda: max(ends - self._loop.time(), 0.0)

    def close(self) -> None:
        """Read no more and close the descriptor; whoever waits finds a fault."""
        self._ended = True
        self._watch()
        self._socket.close()
        if self._waiter is not None and not self._waiter.done():
            self._queue.put(self._now_ns(), ConnectionAbortedError("closed"))
            self._waiter.set_result(None)

    async def _wait(self, timeout: float | None) -> None:
        if self._ended:
            self._queue.put(self._now_ns(), b"")
            return
        if self._waiter is not None:
            msg = "this connection is being read already"
            raise RuntimeError(msg)
        waiter = self._waiter = self._loop.create_future()
        timer = None if timeout is None else self._loop.call_later(timeout, _expire, waiter)
        self._watch()
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
            self._watch()

    def _watch(self) -> None:
        """Have the loop watch the socket if, and only if, its bytes are wanted."""
        waited_for = self._waiter is not None
        wanted = not self._ended and (waited_for or (self._bodies > 0 and not self._queue.full))
        if wanted == self._watched:
            return
        self._watched = wanted
        if wanted:
            file = self._socket.fileno()
            self._context.run(self._loop.add_reader, file, _on_readable, weakref.ref(self))
        elif not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())

    def _look_soon(self, now_ns: int) -> None:
        if self._bodies and not self._look_is_due:
            self._look_is_due = True
            self._look_due_since_ns = now_ns
            self._loop.call_soon(self._look, context=self._context)

    def _look(self) -> None:
        """The loop has turned: if the application kept it from that, what is there now had waited."""
        held_ns = 0 if self._ended else self._loop_held_ns()
        self._look_is_due = False
        if held_ns:
            waiting = select.poll()
            waiting.register(self._socket, select.POLLIN)
            self._held_ns = held_ns if waiting.poll(0) else 0

    def _loop_held_ns(self) -> int:
        """Return how long the loop has not turned since the consumer got bytes, if long; else 0."""
        if not self._look_is_due:
            return 0
        held_ns = self._now_ns() - self._look_due_since_ns
        return held_ns if held_ns > AWAY_NS else 0

    def _on_readable(self) -> None:
        outcome: bytes | Exception
        try:
            t_ns, outcome = self.arrivals.receive(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            t_ns, outcome = self._now_ns(), error
        self._ended = not outcome or isinstance(outcome, Exception)
        # Some loops (uvloop) look at their sockets before what was scheduled earlier.
        held_ns = self._held_ns or self._loop_held_ns()
        self._queue.put(t_ns, outcome, FOREVER_NS if self._paused else held_ns)
        self._held_ns = 0
        self._paused = self._queue.full
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._watch()

    def _close_body(self) -> None:
        self._bodies -= 1
        self._watch()


def _on_readable(reader: weakref.ref[SocketReader]) -> None:
    alive = reader()
    if alive is not None:
        alive._on_readable()


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError("timed out"))


def _let_go(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    loop.remove_reader(sock.fileno())
    sock.close()
