"""The state machine of one streamed response: fed with (time, bytes), it ends in a Timeline.

It opens no socket and reads no clock. `on_read` is the hot path: two appends. Everything else waits
until `digest`, which the owner calls when it has time, or until `finish`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from itertools import accumulate, chain
from operator import ne
from types import MappingProxyType

from phasemeter.core.coding import BrokenCodingError, Decode, UnsupportedCodingError, decoder_for
from phasemeter.core.consumer import Consumer
from phasemeter.core.decoding import DecodedEvent, Dialect
from phasemeter.core.errors import classify_error_document
from phasemeter.core.framing import (
    BodyForm,
    Frame,
    Framer,
    JsonBodyFramer,
    JsonLinesFramer,
    SseFramer,
    form_of,
)
from phasemeter.core.json_array import JsonArrayFramer
from phasemeter.core.repeats import Repeats
from phasemeter.core.timeline import Leg, Outcome, StampSource, Timeline
from phasemeter.core.understood import Understood

_MAX_ERROR_BODY_BYTES = 65_536
_CONSUMER_CHUNKS = 64


class StreamEnd(Enum):
    """How the byte stream ended, as its owner saw it."""

    EOF = "eof"
    """The body is complete."""
    LOST = "lost"
    """The connection was lost, before or after the headers."""
    TIMED_OUT = "timed_out"
    CLOSED = "closed"
    """The caller stopped: close, break, cancel."""
    ABANDONED = "abandoned"
    """The caller dropped the stream without closing it."""


class StreamMeter:
    """Times one response.

    Not thread-safe: one response has one owner. All times are ns on one monotonic clock.

    Attributes:
        connected_ns: Set by the owner when a new connection became usable.
        sent_ns: Set by the owner when the request's last byte went to the kernel.
        stamp_source: Where the times of the reads come from.
        times_ns: Time of each read taken so far. Hot loops append here, and then the bytes to `unread`.
        unread: Bytes of the last of these reads, those that are not decoded yet.
        clock_stepped: Set by the owner when kernel stamps cannot be trusted.
        consumer: Set by owners that hand chunks to an application.
        streamed: Set to False by owners whose request asked for no stream.
        legs: Filled by owners whose request needed several HTTP exchanges.
        tags: Low-cardinality labels.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        request_id: str,
        model: str | None,
        started_ns: int,
        stamp_source: StampSource,
        intended_ns: int | None = None,
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.connected_ns: int | None = None
        self.sent_ns: int | None = None
        self.stamp_source: StampSource = stamp_source
        self.clock_stepped = False
        self.consumer: Consumer | None = None
        self.streamed = True
        self.legs: list[Leg] = []
        self.tags = tags
        self._dialect = dialect
        self._decoder = dialect.decoder()
        self._request_id = request_id
        self._model = model
        self._started_ns = started_ns
        self._intended_ns = intended_ns
        self._headers_ns: int | None = None
        self._status: int | None = None
        self._undo_coding: Decode | None = None
        self._framer: Framer | None = None
        self._head = b""
        self.times_ns: list[int] = []
        self.unread: list[bytes] = []
        self._decoded = 0
        self._read = -1
        self._read_ns: int | None = None
        self._broken = False
        self._repeats = Repeats(dialect.varying)
        self._understood = Understood()

    @property
    def has_body(self) -> bool:
        """True once body bytes were taken."""
        return self._read >= 0 or bool(self.unread)

    @property
    def shared_reads(self) -> Collection[int]:
        """Reads that brought something after or before their token events: their last bytes may be that."""
        return self._understood.shared_reads

    def on_headers(self, t_ns: int, status: int, headers: Mapping[str, str]) -> None:
        """Take the response's status and headers (lower-case names), complete at `t_ns`."""
        self._headers_ns = t_ns
        self._status = status
        try:
            self._undo_coding = decoder_for(headers.get("content-encoding", ""))
        except UnsupportedCodingError:
            self._broken = True
            self._understood.error_type = "unsupported_content_encoding"

    def on_read(self, t_ns: int, data: bytes) -> None:
        """Take body bytes, still content-coded, that arrived at `t_ns`. Hot path: two appends.

        Bytes with the time of the previous call belong to the same read: an HTTP library may hand
        over one read in pieces, and the kernel gives one segment's stamp to each part of it.
        """
        self.times_ns.append(t_ns)
        self.unread.append(data)

    def digest(self, most: int | None = None) -> bool:
        """Decode reads taken so far, 0.5 to 12 us an event. May be called at any time, or never.

        Args:
            most: Decode at most so many reads, for owners that must not stay away for long.

        Returns:
            True when nothing is left to decode.
        """
        if self.consumer is not None:
            self.consumer.digest(_CONSUMER_CHUNKS)
        data = self.unread[:most]
        del self.unread[: len(data)]
        times_ns = self.times_ns[self._decoded : self._decoded + len(data)]
        self._decoded += len(data)
        place = 0
        may_run = True
        while place < len(data):
            if may_run and self._is_between:
                count = self._take_run(data[place:], times_ns[place:])
                place += count
                may_run = False
                continue
            may_run = self._take_read(times_ns[place], data[place])
            place += 1
        return not self.unread

    @property
    def _is_between(self) -> bool:
        """True where the next read starts a block and is not coded."""
        framer = self._framer
        return framer is not None and framer.is_between and self._undo_coding is None

    def _take_run(self, data: Sequence[bytes], times_ns: Sequence[int]) -> int:
        """Take reads in a row that say what the last event said, each one whole block; return how many."""
        assert self._framer is not None
        count = self._repeats.run(data, self._framer.end_mark)
        if count:
            taken_ns = times_ns[:count]
            self._understood.repeat_run(taken_ns, self._reads_of(taken_ns))
            self._read = self._understood.reads[-1]
            self._read_ns = taken_ns[-1]
        return count

    def _reads_of(self, times_ns: Sequence[int]) -> Sequence[int]:
        """Return the numbers of reads: one goes up where the time differs from the one before."""
        if len({self._read_ns, *times_ns}) > len(times_ns):  # as it usually does
            return range(self._read + 1, self._read + 1 + len(times_ns))
        apart = map(ne, times_ns, chain((self._read_ns,), times_ns))
        return list(accumulate(apart, initial=self._read))[1:]

    def _take_read(self, t_ns: int, data: bytes) -> bool:
        """Take one read; return True if a pattern was learned from it."""
        if not data:
            return False  # nothing arrived, so this is no read
        if t_ns != self._read_ns:
            self._read += 1
            self._read_ns = t_ns
        repeats, repeat = self._repeats, self._understood.repeat
        if self._is_between:
            assert self._framer is not None
            # The usual read is one whole block with another piece of text: no need to split it off.
            if repeats.matches(data, self._framer.end_mark):
                repeat(repeats.running_count, t_ns, self._read)
                return False
            frame = self._framer.whole(data)
            if frame is not None:
                return self._understand(frame, data[: -len(self._framer.end_mark)])
        learned = False
        for block in self._blocks(data):
            if repeats.matches(block):
                repeat(repeats.running_count, t_ns, self._read)
            else:
                assert self._framer is not None
                learned = self._understand(self._framer.frame(block), block)
        if not self._is_between:
            self._understood.shared_reads.add(self._read)
        return learned

    def finish(
        self,
        t_ns: int,
        end: StreamEnd,
        error_type: str | None = None,
        *,
        answered_ns: int | None = None,
    ) -> Timeline:
        """End the response and return what was measured. To be called exactly once.

        Args:
            t_ns: End of the stream, or the time of the error.
            end: How the byte stream ended.
            error_type: Low-cardinality class of what ended it, where the owner knows one; used
                only when the response itself told no error and had not finished.
            answered_ns: End to be taken instead if the answer was complete when its stream was put
                away otherwise than by reading it to its end.
        """
        self.digest()
        if end is StreamEnd.EOF and not self._broken:
            self._finish_framing()
        outcome, error_type = self._judge(end, error_type)
        if answered_ns is not None and end is not StreamEnd.EOF:
            t_ns = answered_ns if outcome in (Outcome.OK, Outcome.EMPTY) else t_ns
        seen = self._understood
        consumer = self.consumer or Consumer()
        consumer.digest()
        return Timeline(
            request_id=self._request_id,
            dialect=self._dialect.name,
            operation=self._dialect.operation,
            model=self._model,
            response_model=seen.model,
            stamp_source=self.stamp_source,
            intended_ns=self._intended_ns,
            started_ns=self._started_ns,
            connected_ns=self.connected_ns,
            sent_ns=self.sent_ns,
            headers_ns=self._headers_ns,
            first_event_ns=seen.first_event_ns,
            ended_ns=t_ns,
            events=seen.token_events(consumer.limited_reads),
            usage=seen.usage,
            outcome=outcome,
            error_type=error_type,
            finish_reason=seen.finish_reason,
            http_status=self._status,
            choices=len(seen.choices),
            streamed=self.streamed and not isinstance(self._framer, JsonBodyFramer),
            clock_stepped=self.clock_stepped,
            consumer_waits_ns=tuple(consumer.waits_ns),
            legs=tuple(self.legs),
            tags=self.tags,
            server=seen.server,
        )

    @property
    def _is_http_error(self) -> bool:
        return self._status is not None and self._status >= 300

    def _blocks(self, data: bytes) -> list[bytes]:
        if self._broken:
            return []
        if self._undo_coding is not None:
            try:
                data = self._undo_coding(data)
            except BrokenCodingError:
                self._broken = True
                return []
        if self._is_http_error:
            self._head += data[: _MAX_ERROR_BODY_BYTES - len(self._head)]
            return []
        if self._framer is None:
            self._head += data
            form = form_of(self._head)
            if form is None:
                return []
            self._framer = self._framer_for(form)
            data, self._head = self._head, b""
        return self._framer.split(data)

    def _framer_for(self, form: BodyForm) -> Framer:
        if form is BodyForm.EVENTS:
            return SseFramer()
        if form is BodyForm.ARRAY:
            return JsonArrayFramer()
        return JsonLinesFramer() if self._dialect.json_lines else JsonBodyFramer()

    def _finish_framing(self) -> None:
        if self._framer is None:
            return
        for frame in self._framer.finish():
            self._take(frame)

    def _understand(self, frame: Frame | None, block: bytes) -> bool:
        """Take the frame of a block; return True if it may be the pattern of those to come."""
        event = None if frame is None else self._take(frame)
        if event is None:
            self._understood.shared_reads.add(self._read)
            return False
        if event.is_only_text:
            self._repeats.learn(block, event.running_output_tokens)
            return True
        self._repeats.forget()
        return False

    def _take(self, frame: Frame) -> DecodedEvent | None:
        seen = self._understood
        if seen.done or self._read_ns is None:
            return None
        if seen.first_event_ns is None:
            seen.first_event_ns = self._read_ns
        event = self._decoder.decode(frame)
        seen.take(event, self._read_ns, self._read)
        return event

    def _judge(self, end: StreamEnd, error_type: str | None) -> tuple[Outcome, str | None]:
        seen = self._understood
        if self._is_http_error:
            return Outcome.ERROR, self._http_error_class()
        if seen.error_type is not None:
            return Outcome.ERROR, seen.error_type
        if seen.finish_reason is not None or seen.terminal:
            return (Outcome.OK if seen.times_ns else Outcome.EMPTY), None
        if end is StreamEnd.CLOSED:
            return Outcome.CANCELLED, error_type
        if end is StreamEnd.ABANDONED:
            return Outcome.ABANDONED, error_type
        if end is StreamEnd.TIMED_OUT:
            return Outcome.ERROR, error_type or "timeout"
        if self._headers_ns is None:
            return Outcome.ERROR, error_type or "no_response"
        return Outcome.TRUNCATED, error_type

    def _http_error_class(self) -> str:
        try:
            body = json.loads(self._head.decode("utf-8-sig", errors="replace"))
        except (ValueError, RecursionError):
            body = None
        return classify_error_document(body, self._status)
