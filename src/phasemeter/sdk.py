"""The SDK: a Meter ties clients, transports and sinks together; module functions use a default one."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from functools import partial
from threading import Lock
from typing import TypeVar, cast, overload
from weakref import WeakValueDictionary, ref

from phasemeter.clients import wrap as wrap_client
from phasemeter.clients.items import KindOf
from phasemeter.clients.iterator import TimedAsyncIterator, TimedIterator
from phasemeter.clients.iterator import time_stream as time_iteration
from phasemeter.core.clock import Clock, SystemClock
from phasemeter.core.errors import UsageError, guard
from phasemeter.core.timeline import Timeline
from phasemeter.sinks import Sink
from phasemeter.sinks.hdr import HdrSink
from phasemeter.transports.recorder import OpenCall
from phasemeter.transports.request import RequestInfo

ClientT = TypeVar("ClientT")
ItemT = TypeVar("ItemT")


class Meter:
    """Times clients and iterators and hands what it finds to sinks.

    Thread-safe. Streams that are dropped without a close are reported when their event loop runs on, or
    else at the next use of the Meter (a request, a snapshot, close): a finalizer must not call sinks.
    They end at their last read's time all the same. At the process's exit a Meter that was not closed is
    closed.

    Args:
        sinks: Where findings go; by default an HdrSink and an OtelSink.
        clock: Where the time comes from; the system's monotonic clock by default.
    """

    def __init__(self, sinks: Sequence[Sink] | None = None, *, clock: Clock | None = None) -> None:
        self._sinks: tuple[Sink, ...] = _default_sinks() if sinks is None else tuple(sinks)
        self._now_ns: Callable[[], int] = (clock or SystemClock()).now_ns
        self._postponed: deque[Callable[[], None]] = deque()
        self._open: WeakValueDictionary[tuple[int, int], OpenCall] = WeakValueDictionary()
        # Registered after its sinks' own hooks, so run before them: last in, first out.
        self._at_exit = partial(_close_if_alive, ref(self))
        atexit.register(self._at_exit)

    def wrap(self, client: ClientT) -> ClientT:
        """Return a timed client of the same type; the given one is left as it is.

        Both share connections, so closing one closes the other's. A client that is timed by this Meter
        already is returned itself.

        Raises:
            TypeError: If the client is of no known kind.
        """
        return cast(ClientT, wrap_client(client, self))

    @overload
    def time_stream(
        self,
        source: AsyncIterable[ItemT],
        *,
        model: str | None = None,
        operation: str = "chat",
        kind_of: KindOf | None = None,
    ) -> TimedAsyncIterator[ItemT]: ...
    @overload
    def time_stream(
        self,
        source: Iterable[ItemT],
        *,
        model: str | None = None,
        operation: str = "chat",
        kind_of: KindOf | None = None,
    ) -> TimedIterator[ItemT]: ...
    def time_stream(
        self,
        source: Iterable[ItemT] | AsyncIterable[ItemT],
        *,
        model: str | None = None,
        operation: str = "chat",
        kind_of: KindOf | None = None,
    ) -> TimedIterator[ItemT] | TimedAsyncIterator[ItemT]:
        """Return a timed iteration; see `phasemeter.time_stream`."""
        return time_iteration(source, self, model=model, operation=operation, kind_of=kind_of)

    def snapshot(self) -> dict[str, object]:
        """Return the percentiles so far, as `HdrSink.snapshot` describes them.

        Raises:
            UsageError: If the Meter has no HdrSink.
        """
        self._settle()
        for sink in self._sinks:
            if isinstance(sink, HdrSink):
                return sink.snapshot()
        msg = "snapshot() needs an HdrSink; give the Meter one: Meter(sinks=[HdrSink(), ...])"
        raise UsageError(msg)

    def close(self) -> None:
        """Report dropped streams, and those still running as abandoned; close the sinks."""
        atexit.unregister(self._at_exit)
        self._settle()
        for (process, _), call in self._open_calls():
            if process == os.getpid():  # what a parent had open before a fork is the parent's
                call.abandon()
        for sink in self._sinks:
            with guard(f"closing {type(sink).__name__}"):
                sink.close()

    @property
    def now_ns(self) -> Callable[[], int]:
        """The clock."""
        return self._now_ns

    def started(self, info: RequestInfo, call: OpenCall) -> object:
        """Tell the sinks of a request; for transports."""
        self._settle()
        self._open[os.getpid(), id(call)] = call
        states: list[object] = []
        for sink in self._sinks:
            state: object = None
            with guard(f"telling {type(sink).__name__} of a request"):
                state = sink.started(info)
            states.append(state)
        return states

    def finished(self, timeline: Timeline, state: object) -> None:
        """Tell the sinks of a response that ended; for transports."""
        states = state if isinstance(state, list) else [None] * len(self._sinks)
        for sink, its_state in zip(self._sinks, states, strict=True):
            with guard(f"telling {type(sink).__name__} of a response"):
                sink.finished(timeline, its_state)

    def postpone(self, finish: Callable[[], None]) -> None:
        """Keep `finish` for the next use of the Meter; for transports, safe in a finalizer."""
        self._postponed.append(finish)

    def _open_calls(self) -> list[tuple[tuple[int, int], OpenCall]]:
        while True:
            try:
                return list(self._open.items())
            except RuntimeError:  # another thread began a request meanwhile
                continue

    def _settle(self) -> None:
        while self._postponed:
            try:
                finish = self._postponed.popleft()
            except IndexError:  # another thread was quicker
                return
            finish()


def _close_if_alive(meter: ref[Meter]) -> None:
    left = meter()
    if left is not None:
        left.close()


_default: Meter | None = None
_default_lock = Lock()


def default_meter() -> Meter:
    """Return the Meter of the module functions, made at first use."""
    global _default  # noqa: PLW0603  one per process, by design
    with _default_lock:
        if _default is None:
            _default = Meter()
        return _default


def wrap(client: ClientT) -> ClientT:
    """Return a timed client of the same type: same methods, same exceptions, same laziness.

    Args:
        client: A client of the openai or anthropic package (blocking or async, Azure, Bedrock, Vertex,
            subclasses), or a Client or AsyncClient of httpx or httpx2. It is left as it is and shares
            its connections with the timed one.

    Raises:
        TypeError: If the client is of no known kind.
    """
    return default_meter().wrap(client)


@overload
def time_stream(
    source: AsyncIterable[ItemT],
    *,
    model: str | None = None,
    operation: str = "chat",
    kind_of: KindOf | None = None,
    meter: Meter | None = None,
) -> TimedAsyncIterator[ItemT]: ...
@overload
def time_stream(
    source: Iterable[ItemT],
    *,
    model: str | None = None,
    operation: str = "chat",
    kind_of: KindOf | None = None,
    meter: Meter | None = None,
) -> TimedIterator[ItemT]: ...
def time_stream(
    source: Iterable[ItemT] | AsyncIterable[ItemT],
    *,
    model: str | None = None,
    operation: str = "chat",
    kind_of: KindOf | None = None,
    meter: Meter | None = None,
) -> TimedIterator[ItemT] | TimedAsyncIterator[ItemT]:
    """Time anything that yields, with stamps at the pull.

    The source is not touched before the first pull, which starts the clock. Exhaustion is the regular
    end; items are passed on unchanged and not kept.

    Args:
        source: An iterable or async iterable.
        model: Name of the model, for groups and telemetry.
        operation: Operation name of the OpenTelemetry conventions.
        kind_of: Tells what kind of text an item is, None for no text. Default: non-empty text or
            bytes is content; openai-like chunks are read by the rules of their dialect; an object
            with non-empty `.text` or `.content` text is content.
        meter: Meter to report to; the default one if None.

    Raises:
        TypeError: If the source can be iterated in neither way.
    """
    recorder = meter or default_meter()
    return time_iteration(source, recorder, model=model, operation=operation, kind_of=kind_of)


def snapshot() -> dict[str, object]:
    """Return the default Meter's percentiles so far, as `HdrSink.snapshot` describes them."""
    return default_meter().snapshot()


def _default_sinks() -> tuple[Sink, ...]:
    from phasemeter.sinks.otel import OtelSink

    return HdrSink(), OtelSink()
