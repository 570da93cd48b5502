"""What was measured of one response: instants, token events, usage, outcome.

Field names follow the definitions in docs/metrics.md. Every instant is an integer in nanoseconds on
the process's monotonic clock; None means not observed, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import compress, islice
from operator import ne, not_, sub
from typing import Literal, NamedTuple

from phasemeter.core.token_events import TokenEvent, TokenEvents

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
    """The gaps of a response, worked out once: all, those that no consumer limited, and the others."""

    all_ns: Sequence[int]
    later: Sequence[int]  # index of the later event of each
    unlimited_ns: Sequence[int]
    unlimited_tokens: Sequence[int | None]  # tokens of the later event of each
    limited_ns: Sequence[int] = ()


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
    _columns: TokenEvents = field(init=False, repr=False, compare=False)
    _gaps: _Gaps | None = field(default=None, init=False, repr=False, compare=False)
    _ordered_gaps_ns: Sequence[int] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Keep the events by columns, whatever they came in."""
        object.__setattr__(self, "_columns", TokenEvents.of(self.events))

    @property
    def columns(self) -> TokenEvents:
        """The events, by columns."""
        return self._columns

    @property
    def first_token_ns(self) -> int | None:
        """First generated token of any kind."""
        times_ns = self._columns.times_ns
        return times_ns[0] if times_ns else None

    @property
    def first_answer_ns(self) -> int | None:
        """First generated token of kind content."""
        columns = self._columns
        try:
            return columns.times_ns[columns.kinds.index("content")]
        except ValueError:
            return None

    @property
    def last_token_ns(self) -> int | None:
        """Last generated token."""
        times_ns = self._columns.times_ns
        return times_ns[-1] if times_ns else None

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
        first_token_ns = self.first_token_ns
        if first_token_ns is None or not self.streamed:
            return None
        return (first_token_ns - self.started_ns) / 1e9

    @property
    def decode_ns(self) -> int | None:
        """Decode span: first to last token. None where all tokens came in one read: unknown."""
        times_ns, reads = self._columns.times_ns, self._columns.reads
        if not self.streamed or not times_ns or reads[0] == reads[-1]:
            return None
        return times_ns[-1] - times_ns[0]

    @property
    def decode_s(self) -> float | None:
        """Decode span in seconds; None as in `decode_ns`."""
        decode_ns = self.decode_ns
        return None if decode_ns is None else decode_ns / 1e9

    def leg(self, role: str) -> Leg | None:
        """Return the leg of a role, or None where the request had none."""
        for leg in self.legs:
            if leg.role == role:
                return leg
        return None

    def gaps(self) -> Iterator[tuple[int, TokenEvent]]:
        """Yield (gap in ns, later event) for consecutive token events of different reads."""
        gaps = self._worked_out()
        return zip(gaps.all_ns, map(self.events.__getitem__, gaps.later), strict=True)

    def gaps_ns(self) -> Sequence[int]:
        """Return the gaps of the stream in ns: those of `gaps` that no consumer limited."""
        return self._worked_out().unlimited_ns

    def ordered_gaps_ns(self) -> Sequence[int]:
        """Return those of `gaps_ns` in order of length, shortest first."""
        ordered_ns = self._ordered_gaps_ns
        if ordered_ns is None:
            ordered_ns = sorted(self.gaps_ns())
            object.__setattr__(self, "_ordered_gaps_ns", ordered_ns)
        return ordered_ns

    def all_gaps_ns(self) -> Sequence[int]:
        """Return all gaps in ns, those included that the consumer limited."""
        return self._worked_out().all_ns

    def limited_gaps_ns(self) -> Sequence[int]:
        """Return the gaps in ns that the consumer limited."""
        return self._worked_out().limited_ns

    def gap_tokens(self) -> Sequence[int | None]:
        """Return how many tokens came with the later event of each of `gaps_ns`, where that is told."""
        return self._worked_out().unlimited_tokens

    def _worked_out(self) -> _Gaps:
        gaps = self._gaps
        if gaps is None:
            gaps = _gaps_of(self._columns)
            object.__setattr__(self, "_gaps", gaps)
        return gaps


def _gaps_of(events: TokenEvents) -> _Gaps:
    times_ns, reads, tokens, limited = events.times_ns, events.reads, events.tokens, events.limited
    count = len(times_ns)
    if not limited and len(set(reads)) == count:  # each came in a read of its own
        all_ns = list(map(sub, islice(times_ns, 1, None), times_ns))
        return _Gaps(all_ns, range(1, count), all_ns, tokens[1:])
    apart = list(map(ne, islice(reads, 1, None), reads))
    all_ns = list(compress(map(sub, islice(times_ns, 1, None), times_ns), apart))
    later = list(compress(range(1, count), apart))
    later_tokens = list(compress(islice(tokens, 1, None), apart))
    if not any(limited):
        return _Gaps(all_ns, later, all_ns, later_tokens)
    free = list(map(not_, compress(islice(limited, 1, None), apart)))
    return _Gaps(
        all_ns,
        later,
        list(compress(all_ns, free)),
        list(compress(later_tokens, free)),
        list(compress(all_ns, map(not_, free))),
    )


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
