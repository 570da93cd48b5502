"""The SDK: a Meter ties clients, transports and sinks together; module functions use a default one."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from functools import cache, partial
from threading import Lock
from typing import TypeVar, cast, overload
from weakref import WeakValueDictionary, ref

from phasemeter import settings
from phasemeter.clients import process_wide
from phasemeter.clients import wrap as wrap_client
from phasemeter.clients.items import KindOf
from phasemeter.clients.iterator import TimedAsyncIterator, TimedIterator
from phasemeter.clients.iterator import time_stream as time_iteration
from phasemeter.core.clock import Clock, SystemClock
from phasemeter.core.errors import UsageError, guard, warn_once
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
        inject_usage: Ask streamed chat and legacy completions for their token counts, where the
            request says nothing of `stream_options.include_usage`, and hide the chunk that brings
            them. Default: as PHASEMETER_INJECT_USAGE says, else off.
    """

    def __init__(
        self,
        sinks: Sequence[Sink] | None = None,
        *,
        clock: Clock | None = None,
        inject_usage: bool | None = None,
    ) -> None:
        self._sinks: tuple[Sink, ...] = (HdrSink(), _otel_sink()) if sinks is None else tuple(sinks)
        if inject_usage is None:
            inject_usage = settings.from_environment().inject_usage
        self._inject_usage = inject_usage
        self._now_ns: Callable[[], int] = (clock or SystemClock()).now_ns
        self._postponed: deque[Callable[[], None]] = deque()
        self._open: WeakValueDictionary[tuple[int, int], OpenCall] = WeakValueDictionary()
        # Registered after its sinks' own hooks, so run before them: last in, first out.
        self._at_exit = partial(_close_if_alive, ref(self))
        atexit.register(self._at_exit)

    @property
    def inject_usage(self) -> bool:
        """Whether streams are asked for their token counts, where nobody says otherwise."""
        return self._inject_usage

    def wrap(self, client: ClientT, *, inject_usage: bool | None = None) -> ClientT:
        """Return a timed client of the same type; the given one is left as it is.

        Both share connections, so closing one closes the other's. A client that is timed by this Meter
        already is returned itself. With PHASEMETER_DISABLED set, any client is.

        Args:
            client: What is to be timed.
            inject_usage: As for the Meter, for this client; None is as the Meter has it.

        Raises:
            TypeError: If the client is of no known kind.
        """
        if settings.from_environment().disabled:
            return client
        if inject_usage is None:
            inject_usage = self._inject_usage
        return cast(ClientT, wrap_client(client, self, inject_usage=inject_usage))

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
            _default = Meter(configured_sinks())
        return _default


def wrap(client: ClientT, *, inject_usage: bool | None = None) -> ClientT:
    """Return a timed client of the same type: same methods, same exceptions, same laziness.

    With PHASEMETER_DISABLED set, the client itself is returned.

    Args:
        client: A client of the openai or anthropic package (blocking or async, Azure, Bedrock, Vertex,
            subclasses), or a Client or AsyncClient of httpx or httpx2. It is left as it is and shares
            its connections with the timed one.
        inject_usage: Ask streamed chat and legacy completions for their token counts, where the
            request says nothing of `stream_options.include_usage`, and hide the chunk that brings
            them. Default: as PHASEMETER_INJECT_USAGE says, else off.

    Raises:
        TypeError: If the client is of no known kind.
    """
    return default_meter().wrap(client, inject_usage=inject_usage)


def instrument(*, meter: Meter | None = None, inject_usage: bool | None = None) -> None:
    """Time every client of httpx and httpx2 in this process, and so those of openai and anthropic.

    Clients made before count as well as those made later, and so do libraries that are imported later;
    none is imported for it. A client that went through `wrap` reports to its own Meter, and once. Calling
    again changes what is given from the next request on, and leaves the rest. Thread-safe. Does nothing
    with PHASEMETER_DISABLED set.

    Args:
        meter: Meter to report to; at first the default one.
        inject_usage: As for `wrap`; at first as the Meter has it.
    """
    if settings.from_environment().disabled:
        return
    recorder = process_wide.current_recorder()
    if recorder is None:
        meter = meter or default_meter()
        inject_usage = meter.inject_usage if inject_usage is None else inject_usage
    process_wide.instrument(meter or recorder or default_meter(), inject_usage=inject_usage)


def uninstrument() -> None:
    """Undo `instrument`: what it replaced is put back, and streams in flight are timed to their end.

    Where another library has patched the same method on top since, its patch is left alone, and ours
    under it passes everything through. Without `instrument` before it does nothing.
    """
    process_wide.uninstrument()


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
            bytes is content; chunk objects of the known wires, and LangChain's, are read by their
            shape (docs/sdk.md); an object with non-empty `.text` or `.content` text is content.
        meter: Meter to report to; the default one if None.

    Raises:
        TypeError: If the source can be iterated in neither way.
    """
    recorder = meter or default_meter()
    return time_iteration(source, recorder, model=model, operation=operation, kind_of=kind_of)


def snapshot() -> dict[str, object]:
    """Return the default Meter's percentiles so far, as `HdrSink.snapshot` describes them."""
    return default_meter().snapshot()


def configured_sinks(otel: Sink | None = None) -> list[Sink]:
    """Return histograms, OpenTelemetry and, if PHASEMETER_RECORDS names a file, records.

    Args:
        otel: Sink for OpenTelemetry; by default one for the global providers.
    """
    records = _configured_records()
    return [HdrSink(), otel or _otel_sink(), *([] if records is None else [records])]


def _otel_sink() -> Sink:
    from phasemeter.sinks.otel import OtelSink

    wanted = settings.from_environment()
    return OtelSink(
        wanted.semconv,
        label_allow_list=wanted.metric_tags,
        per_chunk_metrics=wanted.per_chunk_metrics,
    )


@cache
def _configured_records() -> Sink | None:
    """Return the one sink for PHASEMETER_RECORDS: a second one would put the first one's file away."""
    from phasemeter.sinks.records import RecordSink

    path = settings.from_environment().records
    if path is None:
        return None
    try:
        return RecordSink(path)
    except UsageError as fault:
        warn_once(f"{settings.RECORDS}: {fault}")
        return None
