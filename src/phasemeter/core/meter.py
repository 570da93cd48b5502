"""The state machine of one streamed response: fed with (time, bytes), it ends in a Timeline.

It opens no socket and reads no clock. `on_read` is the hot path: one append. Everything else waits
until `digest`, which the owner calls when it has time, or until `finish`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

from phasemeter.core.coding import BrokenCodingError, Decode, UnsupportedCodingError, decoder_for
from phasemeter.core.consumer import Consumer
from phasemeter.core.decoding import DecodedEvent, Dialect, TokenPart
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
from phasemeter.core.timeline import (
    Leg,
    Outcome,
    StampSource,
    Timeline,
    TokenEvent,
    Usage,
)

_MAX_ERROR_BODY_BYTES = 65_536


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
        clock_stepped: Set by the owner when kernel stamps cannot be trusted.
        consumer: Set by owners that hand chunks to an application.
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
        self._pending: list[tuple[int, bytes]] = []
        self._read = -1
        self._read_ns: int | None = None
        self._broken = False
        self._repeats = Repeats(dialect.varying)
        self._understood = _Understood()

    @property
    def has_body(self) -> bool:
        """True once body bytes were taken."""
        return self._read >= 0 or bool(self._pending)

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
        """Take body bytes, still content-coded, that arrived at `t_ns`. Hot path.

        Bytes with the time of the previous call belong to the same read: an HTTP library may hand
        over one read in pieces, and the kernel gives one segment's stamp to each part of it.
        """
        self._pending.append((t_ns, data))

    def digest(self, most: int | None = None) -> bool:
        """Decode reads taken so far, 2 to 12 us an event. May be called at any time, or never.

        Args:
            most: Decode at most so many reads, for owners that must not stay away for long.

        Returns:
            True when nothing is left to decode.
        """
        if self.consumer is not None:
            self.consumer.digest()
        batch = self._pending[:most]
        del self._pending[:most]
        repeats, matches, repeat = self._repeats, self._repeats.matches, self._understood.repeat
        for t_ns, data in batch:
            if not data:
                continue  # nothing arrived, so this is no read
            if t_ns != self._read_ns:
                self._read += 1
                self._read_ns = t_ns
            framer = self._framer if self._undo_coding is None else None
            # The usual read is one whole block with another piece of text: no need to split it off.
            if framer is not None and framer.is_between and matches(data, framer.end_mark):
                repeat(repeats.running_count, t_ns, self._read)
                continue
            for block in self._blocks(data):
                if matches(block):
                    repeat(repeats.running_count, t_ns, self._read)
                else:
                    self._understand(block)
        return not self._pending

    def finish(self, t_ns: int, end: StreamEnd, error_type: str | None = None) -> Timeline:
        """End the response and return what was measured. To be called exactly once.

        Args:
            t_ns: End of the stream, or the time of the error.
            end: How the byte stream ended.
            error_type: Low-cardinality class of what ended it, where the owner knows one; used
                only when the response itself told no error and had not finished.
        """
        self.digest()
        if end is StreamEnd.EOF and not self._broken:
            self._finish_framing()
        outcome, error_type = self._judge(end, error_type)
        seen = self._understood
        consumer = self.consumer or Consumer()
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
            streamed=not isinstance(self._framer, JsonBodyFramer),
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

    def _understand(self, block: bytes) -> None:
        assert self._framer is not None
        frame = self._framer.frame(block)
        event = None if frame is None else self._take(frame)
        if event is None:
            return
        if event.is_only_text:
            self._repeats.learn(block, event.running_output_tokens)
        else:
            self._repeats.forget()

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
            return (Outcome.OK if seen.tokens else Outcome.EMPTY), None
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


class _Understood:
    """What the events of a response have said so far."""

    def __init__(self) -> None:
        self.first_event_ns: int | None = None
        self.tokens: list[TokenEvent] = []
        self.choices: set[int] = set()
        self.finish_reason: str | None = None
        self.terminal = False
        self.done = False
        self.error_type: str | None = None
        self.model: str | None = None
        self.server: dict[str, float] = {}
        self._usage = Usage()
        self._running_total: int | None = None  # newer than the one in `_usage`
        self._totals: dict[int, int] = {}  # running totals, by index of the token event
        self._crowded: set[int] = set()  # indexes of token events that shared an event with others

    @property
    def usage(self) -> Usage:
        """Counts told so far."""
        if self._running_total is not None:
            self._usage = replace(self._usage, output_tokens=self._running_total)
            self._running_total = None
        return self._usage

    def take(self, event: DecodedEvent, t_ns: int, read: int) -> None:
        """Take an event that was decoded."""
        parts = event.parts
        for part in parts:
            alone = len(parts) == 1 or not _shares_choice(parts, part)
            if len(parts) > 1:
                self._crowded.add(len(self.tokens))
            self.tokens.append(TokenEvent(t_ns, part.kind, part.tokens if alone else None, read))
            if event.running_output_tokens is not None:
                self._totals[len(self.tokens) - 1] = event.running_output_tokens
        self.choices.update(event.choices)
        if event.usage is not None:
            self._usage = _merged(self.usage, event.usage)
        if event.finish_reason:
            self.finish_reason = event.finish_reason
        if event.terminal:
            self.terminal = True
        if event.done:
            self.done = True
        if self.error_type is None:
            self.error_type = event.error_type
        if self.model is None:
            self.model = event.model
        if event.server:
            self.server.update(event.server)

    def repeat(self, total: int | None, t_ns: int, read: int) -> None:
        """Take an event that says what the last one said, but for its text and its running total."""
        last = self.tokens[-1]
        self.tokens.append(TokenEvent(t_ns, last.kind, last.tokens, read))
        if total is not None:
            self._totals[len(self.tokens) - 1] = self._running_total = total

    def token_events(self, limited_reads: Collection[int]) -> tuple[TokenEvent, ...]:
        """Token events with their counts; running totals are used for single-choice streams."""
        events = self.tokens
        if len(self.choices) <= 1 and 0 in self._totals:
            events = self._counted()
        if limited_reads:
            events = [
                TokenEvent(t_ns, kind, tokens, read, read in limited_reads)
                for t_ns, kind, tokens, read, _ in events
            ]
        return tuple(events)

    def _counted(self) -> list[TokenEvent]:
        events = list(self.tokens)
        before = 0
        for index, (t_ns, kind, tokens, read, limited) in enumerate(self.tokens):
            total = self._totals.get(index)
            if total is None:
                break
            if tokens is None and total > before and index not in self._crowded:
                events[index] = TokenEvent(t_ns, kind, total - before, read, limited)
            before = total
        return events


def _shares_choice(parts: Sequence[TokenPart], part: TokenPart) -> bool:
    return sum(other.choice == part.choice for other in parts) > 1


def _merged(earlier: Usage, later: Usage) -> Usage:
    """The last value seen wins; a later None erases nothing; counts are never added."""
    if earlier.cached_input_tokens is earlier.reasoning_tokens is None and (
        later.input_tokens is not None and later.output_tokens is not None
    ):
        return later  # the usual running count says all that the one before said

    def last(a: int | None, b: int | None) -> int | None:
        return a if b is None else b

    return Usage(
        input_tokens=last(earlier.input_tokens, later.input_tokens),
        cached_input_tokens=last(earlier.cached_input_tokens, later.cached_input_tokens),
        output_tokens=last(earlier.output_tokens, later.output_tokens),
        reasoning_tokens=last(earlier.reasoning_tokens, later.reasoning_tokens),
    )
