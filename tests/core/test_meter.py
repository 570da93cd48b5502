"""The meter: outcomes, read numbering, slices of work, and what its owner tells it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.consumer import Consumer
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.timeline import Leg, Outcome
from phasemeter.dialects import by_name
from phasemeter.testing import chat_chunk

TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"type":"server_error"}}\n\n'


def make_meter(**options):
    settled = {"request_id": "r", "model": "m", "started_ns": 0, "stamp_source": "recv"}
    return StreamMeter(by_name("openai.chat"), **(settled | options))


def run(*reads, end=StreamEnd.EOF, status=200, headers=None, error_type=None):
    meter = make_meter()
    if status is not None:
        meter.on_headers(1, status, headers or {})
    for t_ns, data in reads:
        meter.on_read(t_ns, data)
    return meter.finish(99, end, error_type)


_UNFINISHED = {
    StreamEnd.EOF: (Outcome.TRUNCATED, None),
    StreamEnd.LOST: (Outcome.TRUNCATED, None),
    StreamEnd.TIMED_OUT: (Outcome.ERROR, "timeout"),
    StreamEnd.CLOSED: (Outcome.CANCELLED, None),
    StreamEnd.ABANDONED: (Outcome.ABANDONED, None),
}
_FINISHED = {
    "finish reason after a token": ([TOKEN, FINISH], Outcome.OK),
    "end mark after a token": ([TOKEN, DONE], Outcome.OK),
    "finish reason alone": ([FINISH], Outcome.EMPTY),
    "end mark alone": ([DONE], Outcome.EMPTY),
    "an error alone": ([ERROR], Outcome.ERROR),
    "an error after a token": ([TOKEN, ERROR, DONE], Outcome.ERROR),
    "an error after the finish": ([TOKEN, FINISH, ERROR], Outcome.ERROR),
}


@pytest.mark.parametrize(("seen", "end"), list(itertools.product(_FINISHED, StreamEnd)), ids=str)
def test_what_the_stream_said_outranks_how_it_ended(seen, end):
    bodies, outcome = _FINISHED[seen]

    timeline = run(*enumerate(bodies, start=2), end=end, error_type="told_by_owner")

    error_type = "server_error" if outcome is Outcome.ERROR else None
    assert (timeline.outcome, timeline.error_type) == (outcome, error_type)


@pytest.mark.parametrize(("bodies", "end"), list(itertools.product([(), (TOKEN,)], StreamEnd)))
def test_an_unfinished_stream_is_judged_by_how_it_ended(bodies, end):
    timeline = run(*enumerate(bodies, start=2), end=end)

    assert (timeline.outcome, timeline.error_type) == _UNFINISHED[end]
    assert len(timeline.events) == len(bodies)


@pytest.mark.parametrize("end", StreamEnd)
def test_the_owners_error_type_is_kept_for_an_unfinished_stream(end):
    assert run((2, TOKEN), end=end, error_type="connection_reset").error_type == "connection_reset"


@pytest.mark.parametrize(
    ("end", "outcome", "error_type"),
    [
        (StreamEnd.EOF, Outcome.ERROR, "no_response"),
        (StreamEnd.LOST, Outcome.ERROR, "no_response"),
        (StreamEnd.TIMED_OUT, Outcome.ERROR, "timeout"),
        (StreamEnd.CLOSED, Outcome.CANCELLED, None),
        (StreamEnd.ABANDONED, Outcome.ABANDONED, None),
    ],
)
def test_without_any_response_the_end_decides(end, outcome, error_type):
    timeline = run(end=end, status=None)

    assert (timeline.outcome, timeline.error_type) == (outcome, error_type)
    assert (timeline.headers_ns, timeline.http_status, timeline.first_event_ns) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("status", "end"), list(itertools.product([400, 429, 500, 599], StreamEnd))
)
def test_an_http_error_is_an_error_however_it_ended_and_holds_no_events(status, end):
    timeline = run((2, TOKEN + DONE), status=status, end=end)

    assert timeline.outcome is Outcome.ERROR
    assert (timeline.events, timeline.first_event_ns) == ((), None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'\xef\xbb\xbf{"error":{"type":"insufficient_quota"}}', "rate_limit"),
        (b'{"error":"no room","error_type":"overloaded"}', "overloaded"),
        (b'{"error":null,"code":"bad_request"}', "invalid_request"),
        (b'[{"error":{"code":403}}]', "server_error"),
        (b"[" * 60_000, "server_error"),
        (b'{"error":{"type":"over', "server_error"),
        (b"\xff\xfe", "server_error"),
        (b"", "server_error"),
    ],
)
def test_an_http_error_is_classed_by_its_body_and_else_by_its_status(body, expected):
    assert run((2, body), status=500).error_type == expected


def test_a_stream_is_measured_although_its_owner_knows_no_headers():
    timeline = run((5, TOKEN), (9, FINISH), status=None)

    assert (timeline.outcome, timeline.headers_ns) == (Outcome.OK, None)
    assert timeline.first_token_ns == 5


def test_equal_times_are_one_read_and_an_empty_read_is_none():
    """Three tokens at 5, 5 and 8: the second is coalesced, the third has a gap of 3."""
    timeline = run((5, TOKEN), (5, TOKEN[:9]), (5, TOKEN[9:]), (6, b""), (8, TOKEN), (9, DONE))

    assert [event.read for event in timeline.events] == [0, 0, 1]
    assert [gap_ns for gap_ns, _ in timeline.gaps()] == [3]
    assert timeline.coalesced_events == 1


def test_a_pending_event_at_a_clean_end_has_the_time_of_the_last_bytes():
    timeline = run((5, TOKEN[:-2]), (7, b""))

    assert timeline.first_token_ns == 5


def test_nothing_counts_after_the_end_mark():
    timeline = run((5, TOKEN + DONE + TOKEN), (6, ERROR))

    assert (timeline.outcome, len(timeline.events)) == (Outcome.OK, 1)


def test_bytes_that_are_not_of_the_coding_end_the_understanding_but_not_the_measurement():
    timeline = run((5, b"not gzip"), (6, TOKEN), headers={"content-encoding": "gzip"})

    assert (timeline.outcome, timeline.events) == (Outcome.TRUNCATED, ())


def test_an_unknown_coding_is_an_error_that_says_so():
    timeline = run((5, TOKEN), headers={"content-encoding": "rot13"})

    assert timeline.outcome is Outcome.ERROR
    assert timeline.error_type == "unsupported_content_encoding"


@pytest.mark.parametrize(("body", "streamed"), [(b'{"choices":[]}', False), (DONE, True)])
def test_one_json_body_is_not_a_stream(body, streamed):
    assert run((5, body)).streamed is streamed


def test_what_the_owner_sets_stands_in_the_timeline():
    meter = make_meter(intended_ns=-4, tags={"feature": "x"})
    meter.connected_ns, meter.sent_ns, meter.clock_stepped = 1, 2, True
    meter.on_headers(3, 200, {})
    meter.consumer = Consumer()
    meter.consumer.stamps_ns += [4, 5]
    meter.consumer.handed_ns += [4, 5]
    meter.consumer.kept_ns += [7, 8]
    leg = Leg("prefill", 0, 1, 2)
    meter.legs.append(leg)
    meter.stamp_source = "kernel"

    timeline = meter.finish(9, StreamEnd.CLOSED)

    assert (timeline.intended_ns, timeline.started_ns, timeline.connected_ns) == (-4, 0, 1)
    assert (timeline.sent_ns, timeline.headers_ns, timeline.ended_ns) == (2, 3, 9)
    assert (timeline.consumer_waits_ns, timeline.legs) == ((7, 8), (leg,))
    assert (timeline.stamp_source, timeline.clock_stepped) == ("kernel", True)
    assert (timeline.model, timeline.operation, timeline.tags) == ("m", "chat", {"feature": "x"})


_BODY = TOKEN + b": c\n\n" + TOKEN + TOKEN + FINISH + DONE


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.integers(1, len(_BODY) - 1), unique=True, max_size=20).map(sorted),
    st.lists(st.sampled_from([None, 1, 2, 5]), max_size=20),
)
def test_digesting_in_slices_is_digesting_at_once(cuts, slices):
    edges = [0, *cuts, len(_BODY)]
    pieces = [_BODY[a:b] for a, b in itertools.pairwise(edges)]
    sliced, whole = make_meter(), make_meter()
    for meter in (sliced, whole):
        meter.on_headers(1, 200, {})
    for t_ns, piece in enumerate(pieces, start=2):
        sliced.on_read(t_ns, piece)
        whole.on_read(t_ns, piece)
        if slices:
            sliced.digest(slices.pop())
    assert whole.digest() is True

    assert sliced.finish(99, StreamEnd.EOF) == whole.finish(99, StreamEnd.EOF)


def test_a_slice_says_whether_something_is_left():
    meter = make_meter()
    for t_ns in (1, 2, 3):
        meter.on_read(t_ns, TOKEN)

    assert [meter.digest(2), meter.digest(2), meter.digest(2)] == [False, True, True]


def test_reads_that_brought_more_than_whole_token_events_are_known():
    """Their stamp may be that of the rest: the role, a comment, a finish chunk, half of an event."""
    text = f"data: {chat_chunk({'content': 'a'})}\n\n".encode()
    role = f"data: {chat_chunk({'role': 'assistant', 'content': ''})}\n\n".encode()
    finish = f"data: {chat_chunk({}, finish_reason='stop')}\n\n".encode()
    meter = make_meter()
    meter.on_headers(1, 200, {})
    reads = (role, text, text + b": comment\n\n", text, text + text[:20], text[20:], text, finish)
    for number, data in enumerate((*reads, text + finish)):
        meter.on_read(10 + number, data)
    meter.digest()

    assert meter.shared_reads == {0, 2, 4, 7, 8}
