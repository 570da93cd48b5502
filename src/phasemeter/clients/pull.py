"""Timing of one iteration by its pulls: the same state machine as for bytes, fed with decoded items."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from phasemeter.clients.items import ItemReader, KindOf
from phasemeter.core.consumer import Consumer
from phasemeter.core.decoding import DecodedEvent, Decoder
from phasemeter.core.errors import guard
from phasemeter.core.framing import Frame
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.transports.dropped import report_later, running_loop
from phasemeter.transports.endings import end_of, stop_in_flight
from phasemeter.transports.recorder import Recorder
from phasemeter.transports.request import RequestInfo, new_request_id
from phasemeter.transports.tags import current_tags

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

DIALECT_NAME = "iterator"
_MARK = b"data: 1\n\n"
_DIGEST_EVERY = 32


class _ItemDialect:
    """A dialect whose events were decoded when they were pulled: each frame stands for one."""

    name = DIALECT_NAME
    path_suffixes: Sequence[str] = ()
    json_lines = False
    varying = Varying()

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.events: deque[DecodedEvent] = deque()

    def decoder(self) -> Decoder:
        return self

    def decode(self, frame: Frame) -> DecodedEvent:
        del frame
        return self.events.popleft()


class PulledStream:
    """Owns the meter of one iteration and ends it exactly once.

    Attributes:
        timeline: What was measured, once the iteration has ended; None until then.
    """

    def __init__(
        self, recorder: Recorder, *, model: str | None, operation: str, kind_of: KindOf | None
    ) -> None:
        self.timeline: Timeline | None = None
        self._recorder = recorder
        self._model = model
        self._dialect = _ItemDialect(operation)
        self._reader = ItemReader(kind_of)
        self._meter: StreamMeter | None = None
        self._state: object = None
        self._claims = [True]
        self._last_ns = 0
        self._consumer = Consumer()
        self._pulls = 0
        self._finish_seen = False
        self._loop: AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """True while a started iteration has not ended."""
        return self._meter is not None and bool(self._claims)

    def on_pull(self) -> None:
        """The application asks for the next item; the first time starts the clock."""
        now_ns = self._recorder.now_ns()
        if self._meter is None:
            with guard("starting to time an iteration"):
                self._start(now_ns)
            return
        if self._consumer.handed_ns:
            self._consumer.kept_ns.append(now_ns - self._consumer.handed_ns[-1])
        if not self._pulls % _DIGEST_EVERY:
            with guard("decoding an iteration"):
                self._meter.digest()

    def on_item(self, item: object) -> None:
        """An item was received; to be called before it is handed on."""
        self._last_ns = self._recorder.now_ns()
        self._pulls += 1
        if self._meter is not None:
            with guard("reading an item"):
                event = self._reader.event_of(item)
                is_last = event.terminal or event.finish_reason is not None
                self._finish_seen = self._finish_seen or is_last
                self._dialect.events.append(event)
                self._meter.on_read(self._last_ns, _MARK)
        self._consumer.stamps_ns.append(self._last_ns)
        self._consumer.handed_ns.append(self._recorder.now_ns())

    def on_end(self) -> None:
        """The source is exhausted, as a stream should end."""
        now_ns = self._recorder.now_ns()
        if self._meter is not None and self._claims and self._pulls:
            self._dialect.events.append(DecodedEvent(terminal=True))
            self._meter.on_read(self._last_ns, _MARK)
        self._finish(now_ns, StreamEnd.EOF)

    def on_error(self, error: BaseException) -> None:
        """An exception ended the iteration; it is the caller's to raise on."""
        end, error_type = end_of(error)
        self._finish(self._recorder.now_ns(), end, error_type)

    def on_close(self) -> None:
        """The application closed the iteration."""
        stop = stop_in_flight()
        ended_ns = self._last_ns if stop is None else self._recorder.now_ns()
        self._finish(ended_ns, StreamEnd.CLOSED, stop)

    def on_drop(self) -> None:
        """The iteration was dropped. May run inside the garbage collector."""
        if self.is_open:
            report_later(self._recorder, self._loop, self.abandon)

    def abandon(self) -> None:
        """End as abandoned, at the last item; nothing if it has ended or was not begun."""
        self._finish(self._last_ns, StreamEnd.ABANDONED)

    def _start(self, started_ns: int) -> None:
        self._last_ns = started_ns
        self._loop = running_loop()
        info = RequestInfo(
            request_id=new_request_id(),
            dialect=DIALECT_NAME,
            operation=self._dialect.operation,
            provider="unknown",
            model=self._model,
            server_address=None,
            server_port=None,
            started_ns=started_ns,
            streamed=True,
            tags=current_tags(),
        )
        self._meter = StreamMeter(
            self._dialect,
            request_id=info.request_id,
            model=info.model,
            started_ns=started_ns,
            stamp_source="pull",
            tags=info.tags,
        )
        self._meter.consumer = self._consumer
        self._state = self._recorder.started(info, self)

    def _finish(self, ended_ns: int, end: StreamEnd, error_type: str | None = None) -> None:
        if self._meter is None:
            return
        try:
            self._claims.pop()
        except IndexError:
            return
        self._loop = None
        with guard("ending a timed iteration"):
            timeline = self._meter.finish(max(ended_ns, self._last_ns), end, error_type)
            self.timeline = self._judged(timeline, end)
            self._recorder.finished(self.timeline, self._state)

    def _judged(self, timeline: Timeline, end: StreamEnd) -> Timeline:
        """Mend what only a wire can tell: there are no headers and no end mark here."""
        if end is not StreamEnd.EOF:
            return timeline
        if not self._pulls:
            return replace(timeline, outcome=Outcome.EMPTY, error_type=None)
        is_ok = timeline.outcome is Outcome.OK
        if is_ok and self._reader.needs_finish and not self._finish_seen:
            return replace(timeline, outcome=Outcome.TRUNCATED, error_type=None)
        return timeline
