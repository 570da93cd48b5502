"""The usage chunk goes, every other byte stays, and no complete event waits."""

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.framing import SseFramer
from phasemeter.transports.usage_filter import _MAX_EVENT_BYTES, UsageFilter

USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


def chunk(**fields):
    return json.dumps({"id": "c", "object": "chat.completion.chunk", **fields})


TEXT = chunk(choices=[{"index": 0, "delta": {"content": "a\u00e9 \\n\\n b"}}], usage=None)
FINISH = chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
FINISH_WITH_USAGE = chunk(choices=[{"index": 0, "delta": {}}], usage=USAGE)
FILTER_RESULTS = chunk(choices=[], prompt_filter_results=[{"prompt_index": 0}], usage=USAGE)
ONLY_USAGE = chunk(choices=[], usage=USAGE)
NULL_USAGE = chunk(choices=[], usage=None)
FAULT = chunk(choices=[], usage=USAGE, error={"message": "overloaded"})
TALK_OF_USAGE = chunk(choices=[{"delta": {"content": '{"choices": [], "usage": {}}'}}])

LINE_ENDS = ("\n", "\r\n", "\r")
KEPT = (
    TEXT, FINISH, FINISH_WITH_USAGE, FILTER_RESULTS, NULL_USAGE, FAULT, TALK_OF_USAGE, "[DONE]",
    '{"usage": {}, "choices": []',
)  # fmt: skip


def filtered(reads):
    one = UsageFilter()
    return b"".join([*map(one.feed, reads), one.finish()])


def frames(body):
    framer = SseFramer()
    return [*framer.feed(body), *framer.finish()]


def split(body, cuts):
    at = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(at)]


@st.composite
def events(draw):
    """One event as (bytes, is it a usage chunk): any line ends, comments, several data lines."""
    end = draw(st.sampled_from(LINE_ENDS))
    hidden = draw(st.booleans())
    data = ONLY_USAGE if hidden else draw(st.sampled_from(KEPT))
    if draw(st.booleans()) and data.startswith("{") and data.endswith("}"):
        data = json.dumps(json.loads(data), indent=1)
    lines = [f"data: {line}" for line in data.split("\n")]
    if draw(st.booleans()):
        lines.insert(0, ": keep-alive")
    return end.join([*lines, "", ""]).encode(), hidden


@st.composite
def bodies(draw):
    """A whole body and what is to be left of it."""
    start = draw(st.sampled_from(["", "\ufeff", ": hello\n\n"])).encode()
    body = left = start
    for event, hidden in draw(st.lists(events(), max_size=6)):
        body += event
        left += b"" if hidden else event
        if draw(st.integers(0, 3)) == 0 and not event.endswith(b"\r"):
            body += b"\n"  # a stray blank line
            left += b"\n"
    tail = draw(st.sampled_from([b"", b"data: [DO", b"data: " + TEXT.encode()[:20], b": x\n"]))
    return body + tail, left + tail


@settings(deadline=None)
@given(bodies(), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_gives_the_same_bytes_without_the_usage_chunks(pair, cuts):
    body, left = pair

    assert filtered(split(body, cuts)) == left
    assert filtered([body[i : i + 1] for i in range(len(body))]) == left


@settings(deadline=None)
@given(bodies(), st.integers(0, 10_000))
def test_no_complete_event_is_held_back(pair, cut):
    """What has been passed on holds every event that the bytes so far complete, but the hidden ones."""
    body, _ = pair
    seen = body[: cut % (len(body) + 1)]
    one = UsageFilter()
    passed = b"".join(one.feed(bytes([byte])) for byte in seen)

    complete = [frame.data for frame in SseFramer().feed(seen)]
    kept = [data for data in complete if json_of(data) != json.loads(ONLY_USAGE)]
    assert [frame.data for frame in SseFramer().feed(passed)] == kept


def json_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_the_finish_chunk_is_passed_on_in_the_same_call():
    """A read with the finish chunk and half of the usage chunk."""
    finish, usage = f"data: {FINISH}\n\n".encode(), f"data: {ONLY_USAGE}\n\n".encode()
    one = UsageFilter()

    assert one.feed(f"data: {TEXT}\n\n".encode()) == f"data: {TEXT}\n\n".encode()
    assert one.feed(finish + usage[:10]) == finish
    assert one.feed(usage[10:] + b"data: [DONE]\n\n") == b"data: [DONE]\n\n"
    assert one.finish() == b""


def test_a_usage_chunk_without_its_blank_line_is_hidden_at_the_end():
    body = f"data: {TEXT}\n\ndata: {ONLY_USAGE}".encode()

    assert filtered([body]) == f"data: {TEXT}\n\n".encode()
    assert filtered([body[:-1]]) == body[:-1]  # broken off: no usage chunk


@settings(deadline=None)
@given(st.lists(st.integers(0, 300_000), max_size=6), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_an_event_that_is_too_long_for_usage_is_not_collected(cuts, end):
    """It is passed on as it comes, and what follows is filtered again."""
    long = b"data: " + b"x" * (2 * _MAX_EVENT_BYTES) + end + end
    usage = b"data: " + ONLY_USAGE.encode() + end + end
    one = UsageFilter()
    most = 0
    passed = b""
    for part in split(long + usage + b"data: [DONE]" + end + end, cuts):
        passed += one.feed(part)
        most = max(most, len(one._held))

    assert passed + one.finish() == long + b"data: [DONE]" + end + end
    assert most <= _MAX_EVENT_BYTES


def test_a_body_that_is_no_event_stream_is_passed_on_as_it_comes():
    """A JSON answer, even one that looks like the chunk; blanks before it wait for its first byte."""
    one = UsageFilter()

    assert one.feed(b" \r\n") == b""
    assert one.feed(ONLY_USAGE.encode()[:5]) == b" \r\n" + ONLY_USAGE.encode()[:5]
    assert one.feed(ONLY_USAGE.encode()[5:] + b"\n\n") == ONLY_USAGE.encode()[5:] + b"\n\n"
    assert one.finish() == b""


def test_a_body_that_breaks_off_gives_back_what_was_held():
    one = UsageFilter()
    one.feed(b"data: {")

    assert one.release() == b"data: {"
    assert filtered([b""]) == b""
