"""One case: a recorded response split at random, or damaged and split at random; and what must hold."""

from __future__ import annotations

import json
import signal
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import accumulate, pairwise
from random import Random

from benchmarks.fuzz.mutations import mutated
from benchmarks.fuzz.receive import Ending, Read, WithoutRepeats, receive
from benchmarks.fuzz.wire import FRAMINGS, Framing, Response, cut, load_responses
from phasemeter.core.clock import NS_PER_S
from phasemeter.core.decoding import Dialect
from phasemeter.core.record import parse_record, record_line
from phasemeter.core.timeline import Timeline
from phasemeter.dialects import BUILTIN

_LIMIT_S = 10.0
_ENDINGS: tuple[Ending, ...] = ("close", "reset", "cancel")

Facts = tuple[object, ...]


class WrongError(AssertionError):
    """Something that must hold did not."""


def check_case(seed: int, number: int) -> None:
    """Check one case; everything about it follows from the seed and the number.

    Raises:
        Exception: Whatever the code under test raised; WrongError if something does not hold.
    """
    random = Random(f"{seed}/{number}")
    with _limit(_LIMIT_S):
        if random.random() < 0.4:
            check_split(random)
        else:
            check_damaged(random)


# Valid bytes


def check_split(random: Random) -> None:
    """Any split of valid bytes gives the same events, each at the read that completed it."""
    responses = _responses()
    place = random.randrange(len(responses))
    framing = random.choice(FRAMINGS)
    compressed, chunking = random.random() < 0.2, random.randrange(3)
    wire, told, expected = _reference(place, framing, chunking, compressed=compressed)
    dialect = responses[place].dialect
    reads = random_reads(wire, random)
    got = receive(dialect, reads, _ending_of(responses[place]))
    wanted = _at_reads(expected, [t_ns for t_ns, _ in reads])
    _must_be_equal("a split", _facts(got, times=True), wanted)
    if not compressed:
        _must_be_equal("what the case expects", len(got.events), told)
    _must_survive_writing(got)


def random_reads(wire: bytes, random: Random) -> list[Read]:
    """Cut bytes into reads; the time of a read is the place of its last byte."""
    kind = random.random()
    if kind < 0.1:
        pieces = [wire]
    elif kind < 0.105:
        pieces = [bytes([one]) for one in wire]
    elif kind < 0.9:
        pieces = cut(wire, random, random.randrange(2, 12))
    else:
        pieces = cut(wire, random, random.randrange(12, 120))
    pieces = [piece for piece in pieces if piece]  # a read of nothing is the end
    ends = accumulate(map(len, pieces))
    return [(end - 1, piece) for end, piece in zip(ends, pieces, strict=True)]


@cache
def _responses() -> list[Response]:
    return load_responses()


@cache
def _reference(
    place: int, framing: Framing, chunking: int, *, compressed: bool
) -> tuple[bytes, int, Timeline]:
    """Return bytes, the token events that the case itself expects, and what byte by byte gives."""
    response = _responses()[place]
    sent = response.compressed() if compressed else response
    wire = sent.wire(framing, Random(f"{response.name}/{framing}/{chunking}"))
    reads = [(index, bytes([one])) for index, one in enumerate(wire)]
    whole = receive(response.dialect, [(len(wire) - 1, wire)], _ending_of(response))
    by_byte = receive(response.dialect, reads, _ending_of(response))
    return wire, len(whole.events), by_byte


def _ending_of(response: Response) -> Ending:
    return "close" if response.whole else "reset"


def _at_reads(timeline: Timeline, ends: list[int]) -> Facts:
    """Return the facts of a response fed byte by byte as they are with reads that end at `ends`."""

    def at(t_ns: int | None) -> int | None:
        if t_ns is None or t_ns < 0:
            return t_ns
        place = bisect_left(ends, t_ns)
        return ends[place] if place < len(ends) else t_ns

    times = [at(event.t_ns) for event in timeline.events]
    coalesced = [a == b for a, b in pairwise(times)]
    instants = _instants(timeline)
    return (*_said(timeline), times, coalesced, [at(t_ns) for t_ns in instants])


def _facts(timeline: Timeline, *, times: bool) -> Facts:
    said = _said(timeline)
    if not times:
        return said
    events = timeline.events
    coalesced = [a.read == b.read for a, b in pairwise(events)]
    return (*said, [event.t_ns for event in events], coalesced, _instants(timeline))


def _instants(timeline: Timeline) -> list[int | None]:
    """Return them; a reset has the time of the real clock, which is another each time."""
    ended_ns = timeline.ended_ns if timeline.ended_ns < NS_PER_S else None
    return [timeline.headers_ns, timeline.first_event_ns, ended_ns]


def _said(timeline: Timeline) -> Facts:
    return (
        timeline.outcome,
        timeline.error_type,
        timeline.http_status,
        timeline.finish_reason,
        timeline.response_model,
        timeline.usage,
        timeline.choices,
        timeline.streamed,
        repr(timeline.server),
        [(event.kind, event.tokens) for event in timeline.events],
    )


# Damaged bytes


def check_damaged(random: Random) -> None:
    """Damaged bytes give an outcome: the same however they are split, and with or without short ways."""
    response = random.choice(_responses())
    if random.random() < 0.1:
        response = response.compressed()
    dialect: Dialect = random.choice(BUILTIN) if random.random() < 0.2 else response.dialect
    framing = random.choice(FRAMINGS)
    if random.random() < 0.6:
        body = mutated(response.body, random)
        response = Response(
            response.name, dialect, response.status, response.headers, body, response.whole
        )
        wire = response.wire(framing, random)
    else:
        wire = mutated(response.wire(framing, random), random)
    check_bytes(wire, dialect, random)


def check_bytes(wire: bytes, dialect: Dialect, random: Random) -> None:
    """Check bytes of any kind."""
    ending = random.choice(_ENDINGS)
    first = receive(dialect, random_reads(wire, random), ending)
    _must_survive_writing(first)
    _must_make_sense(first)
    if b"content-encoding" in wire.lower():
        return  # a decompressor that meets damage drops what it had of the same read
    reads = random_reads(wire, random)
    again = receive(dialect, reads, ending)
    _must_be_equal("another split", _facts(again, times=False), _facts(first, times=False))
    slow = receive(WithoutRepeats(dialect), reads, ending)
    _must_be_equal("the long way", _facts(slow, times=True), _facts(again, times=True))


def _must_make_sense(timeline: Timeline) -> None:
    times = [event.t_ns for event in timeline.events]
    if times != sorted(times):
        msg = "times do not rise"
        raise WrongError(msg)
    if any(event.tokens is not None and event.tokens < 1 for event in timeline.events):
        msg = "an event of less than one token"
        raise WrongError(msg)


def _must_survive_writing(timeline: Timeline) -> None:
    line = record_line(timeline)
    line.encode()  # what is written is UTF-8
    read = parse_record(json.loads(line, parse_constant=_no_constant))
    _must_be_equal("its record", _facts(read, times=True), _facts(timeline, times=True))


def _no_constant(name: str) -> object:
    msg = f"{name} in a record"
    raise WrongError(msg)


def _must_be_equal(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        msg = f"{what} differs:\n  {got}\n  {wanted}"
        raise WrongError(msg)


@contextmanager
def _limit(limit_s: float) -> Iterator[None]:
    """Raise in code that takes more CPU time; there is nothing that it could wait for."""

    def too_long(number: int, frame: object) -> None:
        msg = f"takes more than {limit_s:g} s of CPU time"
        raise WrongError(msg)

    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
