"""Record lines: what is written is what is read back, and no text of the answer is in it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.clock import WallAnchor
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.record import (
    SCHEMA_VERSION,
    Issued,
    header_line,
    issued_line,
    parse_issued,
    parse_record,
    record_line,
)
from phasemeter.core.timeline import Leg, Outcome, Timeline, Usage
from phasemeter.core.token_events import TokenEvent
from phasemeter.dialects import by_name

NS = st.integers(-(10**6), 10**18)
MAYBE_NS = st.none() | NS
COUNT = st.none() | st.integers(0, 10**7)
TEXT = st.text(max_size=8)
MAYBE_TEXT = st.none() | TEXT
KINDS = st.sampled_from(["content", "reasoning", "tool_call", "refusal", "audio"])
TAGS = st.dictionaries(TEXT, TEXT, max_size=3)


@st.composite
def token_events(draw):
    events = []
    t_ns, read = draw(NS), draw(st.integers(0, 9))
    for _ in range(draw(st.integers(0, 8))):
        events.append(
            TokenEvent(
                t_ns, draw(KINDS), draw(st.none() | st.integers(1, 9)), read, draw(st.booleans())
            )
        )
        if draw(st.booleans()):
            t_ns, read = t_ns + draw(st.integers(0, 10**9)), read + draw(st.integers(1, 4))
    return tuple(events)


TIMELINES = st.builds(
    Timeline,
    request_id=TEXT,
    dialect=TEXT,
    operation=TEXT,
    model=MAYBE_TEXT,
    stamp_source=st.sampled_from(["kernel", "recv", "yield", "pull"]),
    started_ns=NS,
    ended_ns=NS,
    outcome=st.sampled_from(Outcome),
    response_model=MAYBE_TEXT,
    intended_ns=MAYBE_NS,
    connected_ns=MAYBE_NS,
    sent_ns=MAYBE_NS,
    headers_ns=MAYBE_NS,
    first_event_ns=MAYBE_NS,
    events=token_events(),
    usage=st.builds(Usage, COUNT, COUNT, COUNT, COUNT),
    error_type=MAYBE_TEXT,
    finish_reason=MAYBE_TEXT,
    http_status=st.none() | st.integers(100, 599),
    choices=st.integers(0, 5),
    streamed=st.booleans(),
    clock_stepped=st.booleans(),
    consumer_waits_ns=st.lists(NS, max_size=3).map(tuple),
    legs=st.lists(
        st.builds(Leg, st.sampled_from(["prefill", "decode"]), MAYBE_NS, MAYBE_NS, MAYBE_NS),
        max_size=2,
    ).map(tuple),
    tags=TAGS,
    server=st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
)


def apart_from_read_numbers(timeline):
    events = [(event.t_ns, event.kind, event.tokens) for event in timeline.events]
    names = [name for name in Timeline.__dataclass_fields__ if not name.startswith("_")]
    fields = {name: getattr(timeline, name) for name in names}
    return fields | {"events": events}, [gap_ns for gap_ns, _ in timeline.gaps()]


@settings(deadline=None, max_examples=150)
@given(TIMELINES)
def test_a_timeline_survives_the_way_to_a_line_and_back(timeline):
    line = record_line(timeline)

    assert "\n" not in line
    read_back = parse_record(json.loads(line))
    assert apart_from_read_numbers(read_back) == apart_from_read_numbers(timeline)
    assert read_back.coalesced_events == timeline.coalesced_events
    assert record_line(read_back) == line


def test_no_text_of_the_answer_is_in_a_record():
    chunk = {"content": "SECRET-1", "reasoning": "SECRET-2", "refusal": "SECRET-3"}
    chunk["tool_calls"] = [{"function": {"name": "SECRET-4", "arguments": "SECRET-5"}}]
    token = {"token": "SECRET-6", "logprob": -1}
    choice = {"index": 0, "delta": chunk, "logprobs": {"content": [token]}}
    error = {"type": "SECRET-7", "message": "SECRET-8"}
    meter = StreamMeter(
        by_name("openai.chat"), request_id="r", model="m", started_ns=0, stamp_source="recv"
    )
    meter.on_headers(1, 200, {"x-request": "SECRET-9"})
    for document in ({"choices": [choice]}, {"error": error}, {"error": "SECRET-10"}):
        meter.on_read(2, f"data: {json.dumps(document)}\n\n".encode())

    timeline = meter.finish(9, StreamEnd.EOF)

    assert len(timeline.events) == 4
    assert "SECRET" not in record_line(timeline)


def test_a_request_that_was_issued_is_read_back():
    issued = Issued("r", 5, {"class": "short"})

    assert parse_issued(json.loads(issued_line(issued))) == issued


def test_the_header_carries_schema_and_anchor():
    header = json.loads(header_line(WallAnchor(monotonic_ns=1, unix_ns=2), {"worker": 3}))

    assert header["phasemeter_records"] == SCHEMA_VERSION
    assert header["anchor"] == {"monotonic_ns": 1, "unix_ns": 2}
    assert header["worker"] == 3


@pytest.mark.parametrize(
    "document",
    [{}, {"id": 5}, {"id": "r", "dialect": "d", "operation": "o", "stamp_source": "recv"}],
)
def test_a_line_that_is_no_record_is_refused(document):
    with pytest.raises((KeyError, TypeError, ValueError)):
        parse_record(document)
