"""What was measured of one response: instants, token events, usage, outcome.

Field names follow the definitions in docs/metrics.md. Every instant is an integer in nanoseconds on
the process's monotonic clock; None means not observed, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import compress, islice
from operator import itemgetter, ne, sub
from typing import Literal, NamedTuple

TokenKind = Literal["reasoning", "content", "refusal", "tool_call", "audio"]
"""Kinds of generated text, in the order in which they are counted within one event."""

StampSource = Literal["kernel", "recv", "yield", "pull"]
"""Where a read's time comes from, best first.

kernel: receive time-stamp of the socket. recv: clock read as the socket read returned.
yield: clock read as the HTTP library yielded body bytes. pull: clock read as the client library
handed the chunk over.
"""


class Outcome(StrEnum):
    """How a response ended; every response has exactly one."""

    OK = "ok"
    ERROR = "error"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"


class TokenEvent(NamedTuple):
    """One event that carried generated text of one kind.

    Attributes:
        t_ns: Arrival of the read that completed the event.
        kind: Kind of the text.
        tokens: Tokens in the event, or None where the wire does not tell.
        read: Index of the read that completed the event. Two events of one read have no gap.
        consumer_limited: The read had been there before the application asked for it, so its time
            is the application's and not the arrival's.
    """

    t_ns: int
    kind: TokenKind
    tokens: int | None
    read: int
    consumer_limited: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server told them; None where it did not.

    Attributes:
        input_tokens: The whole prompt, cached part included.
        cached_input_tokens: The part of the prompt that was read from a cache.
        output_tokens: Everything generated, reasoning included.
        reasoning_tokens: The reasoning part of the output.
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Leg:
    """One HTTP exchange of a request that needs several (prefill leg, then decode leg).

    Attributes:
        role: `prefill` or `decode`.
        sent_ns: Last byte of this leg's request handed to the kernel.
        headers_ns: Response headers of this leg complete.
        ended_ns: End of this leg's response; None where it was given up before.
        connected_ns: Connection usable; None when a pooled connection was reused.
    """

    role: str
    sent_ns: int | None
    headers_ns: int | None
    ended_ns: int | None
    connected_ns: int | None = None


class _Gaps(NamedTuple):
    """The gaps of a response, worked out once."""

    all_ns: list[int]
    later: list[TokenEvent]
    unlimited_ns: list[int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One response as it was seen from the client.

    Attributes:
        request_id: Identifier of the request, unique within its run or process.
        dialect: Wire dialect, for instance `openai.chat`.
        operation: The operation name of the OpenTelemetry conventions, for instance `chat`.
        model: Requested model.
        response_model: Model the server says it used.
        stamp_source: Where the times of the reads come from.
        intended_ns: When the arrival plan wanted the request sent (load tester only).
        started_ns: Just before the request was issued.
        connected_ns: Connection usable; None when a pooled connection was reused.
        sent_ns: Last byte of the request handed to the kernel.
        headers_ns: Response headers complete.
        first_event_ns: First event of any kind.
        ended_ns: End of the stream, or the error.
        events: Token events in order of arrival.
        usage: Token counts told by the server.
        outcome: How the response ended.
        error_type: Low-cardinality class when the outcome is not ok, else None.
        finish_reason: Raw last non-empty finish reason.
        http_status: HTTP status, None when there was no response.
        choices: Number of choices seen; 0 when none was.
        streamed: False when the server answered with one body instead of a stream.
        clock_stepped: True when the wall clock moved against the monotonic one during the response.
        consumer_waits_ns: Times between handing a chunk to the application and being asked for
            the next; empty where nothing is handed over (load driver).
        legs: The HTTP exchanges of a request that needed several; empty for the usual one.
        tags: Low-cardinality labels.
        server: Timings that the server told about itself, by their own names.
    """

    request_id: str
    dialect: str
    operation: str
    model: str | None
    stamp_source: StampSource
    started_ns: int
    ended_ns: int
    outcome: Outcome
    response_model: str | None = None
    intended_ns: int | None = None
    connected_ns: int | None = None
    sent_ns: int | None = None
    headers_ns: int | None = None
    first_event_ns: int | None = None
    events: Sequence[TokenEvent] = ()
    usage: Usage = field(default_factory=Usage)
    error_type: str | None = None
    finish_reason: str | None = None
    http_status: int | None = None
    choices: int = 0
    streamed: bool = True
    clock_stepped: bool = False
    consumer_waits_ns: Sequence[int] = ()
    legs: Sequence[Leg] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    server: Mapping[str, float] = field(default_factory=dict)
    _gaps: _Gaps | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def first_token_ns(self) -> int | None:
        """First generated token of any kind."""
        return self.events[0].t_ns if self.events else None

    @property
    def first_answer_ns(self) -> int | None:
        """First generated token of kind content."""
        return next((event.t_ns for event in self.events if event.kind == "content"), None)

    @property
    def last_token_ns(self) -> int | None:
        """Last generated token."""
        return self.events[-1].t_ns if self.events else None

    @property
    def coalesced_events(self) -> int:
        """Token events that came in the same read as an earlier one: their gap is unknown."""
        return max(len(self.events) - 1, 0) - len(self._worked_out().all_ns)

    @property
    def consumer_limited_gaps(self) -> int | None:
        """Gaps that the application limited; None where its pulls were not observed."""
        if not self.consumer_waits_ns:
            return None
        gaps = self._worked_out()
        return len(gaps.all_ns) - len(gaps.unlimited_ns)

    @property
    def prefill_s(self) -> float | None:
        """Prefill span as the client sees it: started to first token, in seconds.

        None without a token, and where the server did not stream.
        """
        if self.first_token_ns is None or not self.streamed:
            return None
        return (self.first_token_ns - self.started_ns) / 1e9

    @property
    def decode_ns(self) -> int | None:
        """Decode span: first to last token. None where all tokens came in one read: unknown."""
        if not self.streamed or not self.events or self.events[0].read == self.events[-1].read:
            return None
        return self.events[-1].t_ns - self.events[0].t_ns

    @property
    def decode_s(self) -> float | None:
        """Decode span in seconds; None as in `decode_ns`."""
        return None if self.decode_ns is None else self.decode_ns / 1e9

    def leg(self, role: str) -> Leg | None:
        """Return the leg of a role, or None where the request had none."""
        return next((leg for leg in self.legs if leg.role == role), None)

    def gaps(self) -> Iterator[tuple[int, TokenEvent]]:
        """Yield (gap in ns, later event) for consecutive token events of different reads."""
        gaps = self._worked_out()
        return zip(gaps.all_ns, gaps.later, strict=True)

    def gaps_ns(self) -> Sequence[int]:
        """Return the gaps of the stream in ns: those of `gaps` that no consumer limited."""
        return self._worked_out().unlimited_ns

    def _worked_out(self) -> _Gaps:
        gaps = self._gaps
        if gaps is None:
            gaps = _gaps_of(self.events)
            object.__setattr__(self, "_gaps", gaps)
        return gaps


_T_NS, _READ, _LIMITED = itemgetter(0), itemgetter(3), itemgetter(4)


def _gaps_of(events: Sequence[TokenEvent]) -> _Gaps:
    if not events:
        return _Gaps([], [], [])
    times_ns = list(map(_T_NS, events))
    reads = list(map(_READ, events))
    apart = list(map(ne, islice(reads, 1, None), reads))
    all_ns = list(compress(map(sub, islice(times_ns, 1, None), times_ns), apart))
    later = list(compress(islice(events, 1, None), apart))
    if not any(map(_LIMITED, events)):
        return _Gaps(all_ns, later, all_ns)
    pairs = zip(all_ns, later, strict=True)
    return _Gaps(all_ns, later, [gap_ns for gap_ns, event in pairs if not event.consumer_limited])


def shifted(timeline: Timeline, by_ns: int) -> Timeline:
    """Return a timeline with every instant moved, to put it on another clock."""

    def move(t_ns: int | None) -> int | None:
        return None if t_ns is None else t_ns + by_ns

    return replace(
        timeline,
        intended_ns=move(timeline.intended_ns),
        started_ns=timeline.started_ns + by_ns,
        connected_ns=move(timeline.connected_ns),
        sent_ns=move(timeline.sent_ns),
        headers_ns=move(timeline.headers_ns),
        first_event_ns=move(timeline.first_event_ns),
        ended_ns=timeline.ended_ns + by_ns,
        events=tuple(event._replace(t_ns=event.t_ns + by_ns) for event in timeline.events),
        legs=tuple(
            Leg(
                leg.role,
                move(leg.sent_ns),
                move(leg.headers_ns),
                move(leg.ended_ns),
                move(leg.connected_ns),
            )
            for leg in timeline.legs
        ),
    )
