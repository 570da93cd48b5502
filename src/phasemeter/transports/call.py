"""One HTTP exchange being timed: from the request to exactly one finished Timeline."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from phasemeter.core.consumer import Consumer
from phasemeter.core.decoding import Dialect
from phasemeter.core.errors import guard
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.timeline import Timeline
from phasemeter.transports.dropped import report_later, running_loop
from phasemeter.transports.endings import closed_by_collector, end_of, stop_in_flight
from phasemeter.transports.limited_gaps import judged
from phasemeter.transports.recorder import Recorder
from phasemeter.transports.request import HttpRequest, RequestInfo, describe, dialect_of
from phasemeter.transports.stamping import Stamps, stamps_of
from phasemeter.transports.tags import current_tags

EXTENSION = "phasemeter"
"""Key under which a response's extensions hold its TimedCall."""


class HttpResponse(Protocol):
    """What is used of a response of httpx or httpx2."""

    extensions: dict[str, object]
    stream: object

    @property
    def status_code(self) -> int: ...  # noqa: D102
    @property
    def headers(self) -> Mapping[str, str]: ...  # noqa: D102


class TimedCall:
    """Owns the meter of one exchange and ends it exactly once.

    Attributes:
        meter: The state machine that the stream feeds.
        consumer: What the application does between the chunks that it is handed.
        source: Where the times of the reads are found; None where the clock is read at the yield.
        timeline: What was measured, once the response has ended.
    """

    def __init__(self, recorder: Recorder, info: RequestInfo, dialect: Dialect) -> None:
        self.meter = StreamMeter(
            dialect,
            request_id=info.request_id,
            model=info.model,
            started_ns=info.started_ns,
            stamp_source="yield",
            tags=info.tags,
        )
        self.consumer = Consumer(self.meter.times_ns)
        self.meter.streamed = info.streamed
        if info.streamed:
            self.meter.consumer = self.consumer
        self.source: Stamps | None = None
        self.timeline: Timeline | None = None
        self._info = info
        self._recorder = recorder
        self._headers_ns: int | None = None
        self._claims = [True]
        self._reads_body = False
        self._loop = running_loop()
        self._state = recorder.started(info, self)

    @property
    def is_open(self) -> bool:
        """True until the one finish was claimed."""
        return bool(self._claims)

    @property
    def now_ns(self) -> int:
        """The recorder's clock."""
        return self._recorder.now_ns()

    @property
    def recorder(self) -> Recorder:
        """Whom the finished Timeline goes to."""
        return self._recorder

    def on_response(self, response: HttpResponse) -> None:
        """Take the response's headers and find where its reads are stamped."""
        self.source = stamps_of(response.extensions, self._recorder.now_ns)
        headers_ns = self.now_ns
        if self.source is not None:
            # It sees which bytes waited in the socket; the times of the pulls only let one suppose it.
            self.consumer.supposes = False
            self.meter.stamp_source = self.source.stamp_source
            headers_ns = self.source.last_read_ns or headers_ns
            self.meter.sent_ns = self.source.last_write_ns
            self.meter.connected_ns = self._connected_ns(self.source)
        self._headers_ns = headers_ns
        self.meter.on_headers(headers_ns, response.status_code, response.headers)
        response.extensions[EXTENSION] = self
        if self.source is not None and self._info.streamed:
            self.source.open_body()
            self._reads_body = True

    def on_body(self, response: HttpResponse, body: bytes) -> None:
        """Take a response whose body was there at once, already decoded (mock transports)."""
        now_ns = self.now_ns
        self.meter.on_headers(now_ns, response.status_code, {})
        self.meter.on_read(now_ns, body)
        response.extensions[EXTENSION] = self
        self._finish(now_ns, StreamEnd.EOF)

    def on_end(self) -> None:
        """The body is complete."""
        source = self.source
        ended_ns = self.now_ns if source is None else source.last_read_ns or self.now_ns
        self._finish(ended_ns, StreamEnd.EOF)

    def on_error(self, error: BaseException) -> None:
        """An exception ended the exchange; it is the caller's to raise on."""
        end, error_type = end_of(error)
        self._finish(self.now_ns, end, error_type)

    def on_close(self) -> None:
        """The response was closed, by its user or by the clean-up of a dropped generator."""
        if not self._claims:
            return
        with guard("closing a timed response"):
            if closed_by_collector(sys._getframe(1)):
                self.on_drop()
                return
            stop = stop_in_flight()
            self._finish(self._last_ns() if stop is None else self.now_ns, StreamEnd.CLOSED, stop)

    def on_drop(self) -> None:
        """The response was dropped without a close. May run inside the garbage collector."""
        if not self._claims:
            return
        report_later(self._recorder, self._loop, self.abandon)

    def abandon(self) -> None:
        """End as abandoned, at the last read; nothing if it has ended."""
        self._finish(self._last_ns(), StreamEnd.ABANDONED)

    def _finish(self, ended_ns: int, end: StreamEnd, error_type: str | None = None) -> None:
        try:
            self._claims.pop()  # atomic: of two threads that end a response, one does
        except IndexError:
            return
        self._loop = None
        with guard("ending a timed response"):
            self._end_reading()
            # If the answer was complete, how its connection was put away is no part of it.
            timeline = self.meter.finish(ended_ns, end, error_type, answered_ns=self._last_ns())
            if self.source is not None and self.source.waited_ns and self._info.streamed:
                events = judged(timeline, self.source.waited_ns, self.meter.shared_reads)
                timeline = replace(timeline, events=events)
            self.timeline = timeline
            self._recorder.finished(timeline, self._state)

    def _end_reading(self) -> None:
        source = self.source
        if source is None:
            return
        if self._reads_body:
            source.close_body()
        self.meter.stamp_source = source.stamp_source
        self.meter.clock_stepped = source.clock_stepped

    def _last_ns(self) -> int:
        if self.consumer.stamps_ns:
            return self.consumer.stamps_ns[-1]
        return self._info.started_ns if self._headers_ns is None else self._headers_ns

    def _connected_ns(self, source: Stamps) -> int | None:
        connected_ns = source.connected_ns
        if connected_ns is None or connected_ns < self._info.started_ns:
            return None
        return connected_ns


def open_call(recorder: Recorder, request: HttpRequest) -> TimedCall | None:
    """Start timing a request; None for one that speaks no known dialect."""
    with guard("starting to time a request"):
        dialect = dialect_of(request)
        if dialect is None:
            return None
        started_ns = recorder.now_ns()
        info = describe(request, dialect, started_ns=started_ns, tags=current_tags())
        return TimedCall(recorder, info, dialect)
    return None
