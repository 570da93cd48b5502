"""Framing: any cut of the bytes gives the same frames, and they are those of the WHATWG grammar."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.core.framing import (
    BodyForm,
    Frame,
    JsonBodyFramer,
    JsonLinesFramer,
    SseFramer,
    form_of,
)

_PIECES = [b"\r", b"\n", b"\r\n", b":", b"data", b"event", b"data: a", b"event: b", b"{}"]
_PIECES += [b"\xef\xbb\xbf", b" ", b"\x00", b"a", b"\xff", "é€".encode()]
BYTES = st.lists(st.sampled_from(_PIECES), max_size=40).map(b"".join)
CUTS = st.lists(st.integers(0, 120), max_size=10)


def pieces_of(body, cuts):
    edges = [0, *sorted({cut for cut in cuts if cut < len(body)}), len(body)]
    return [body[a:b] for a, b in itertools.pairwise(edges)]


def feed_all(framer, pieces):
    return [frame for piece in pieces for frame in framer.feed(piece)]


def reference_frames(body):
    """The event-stream grammar, slowly, over the whole body at once. Ids and retries are left out."""
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
    *lines, _unterminated = re.split("\r\n|\r|\n", text)
    frames, data, event = [], [], None
    for line in lines:
        if line == "":
            if data:
                frames.append(Frame("\n".join(data), event))
            data, event = [], None
        elif line.startswith(":"):
            continue
        else:
            field, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if field == "data":
                data.append(value)
            elif field == "event":
                event = value or None
    return frames


@settings(deadline=None, max_examples=200)
@given(BYTES, CUTS)
def test_sse_frames_are_those_of_the_grammar_wherever_the_bytes_are_cut(body, cuts):
    assert feed_all(SseFramer(), pieces_of(body, cuts)) == reference_frames(body)


@settings(deadline=None, max_examples=100)
@given(BYTES)
def test_sse_frames_are_the_same_byte_by_byte(body):
    assert feed_all(SseFramer(), [bytes([one]) for one in body]) == reference_frames(body)


@settings(deadline=None, max_examples=100)
@given(BYTES, CUTS)
def test_the_end_of_an_sse_body_tells_the_same_wherever_the_bytes_are_cut(body, cuts):
    whole, cut = SseFramer(), SseFramer()
    whole.feed(body)
    feed_all(cut, pieces_of(body, cuts))

    assert cut.finish() == whole.finish()


@settings(deadline=None, max_examples=100)
@given(BYTES, CUTS)
def test_json_lines_are_the_same_wherever_the_bytes_are_cut(body, cuts):
    texts = (line.decode("utf-8-sig", errors="replace").strip() for line in body.split(b"\n")[:-1])

    frames = feed_all(JsonLinesFramer(), pieces_of(body, cuts))

    assert frames == [Frame(text) for text in texts if text]


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60))
def test_no_bytes_make_a_framer_raise(body):
    for framer in (SseFramer(), JsonLinesFramer(), JsonBodyFramer()):
        framer.feed(body)
        framer.finish()


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_each_line_end_completes_an_event_at_its_first_possible_byte(line_end):
    framer = SseFramer()
    body = b"data: a" + line_end + line_end
    first_possible = len(b"data: a" + line_end) + 1

    seen = [bool(framer.feed(body[i : i + 1])) for i in range(len(body))]

    assert seen.index(True) + 1 == first_possible


@pytest.mark.parametrize(
    ("block", "frame"),
    [
        (b"data:a", Frame("a")),
        (b"data:  a", Frame(" a")),
        (b"data", Frame("")),
        (b"data:", Frame("")),
        (b"data: a\ndata: b", Frame("a\nb")),
        (b"event: e\ndata: a", Frame("a", "e")),
        (b"event\ndata: a", Frame("a")),
        (b"error: a", Frame("a", is_error=True)),
        (b'{"error": "x"}', Frame('{"error": "x"}', is_error=True)),
        (b'{"error": null}', None),
        (b'[{"error": "x"}]', Frame('{"error": "x"}', is_error=True)),
        (b'[{"error": "x"}, {}]', None),
        (b"[1]", None),
        (b"[]", None),
        (b'{"choices": []}', None),
        (b"Data: a", None),
        (b" data: a", None),
        (b": data: a", None),
        (b"id: 1\nretry: 5\nevent: e", None),
    ],
)
def test_a_block_is_read_field_by_field(block, frame):
    assert SseFramer().feed(block + b"\n\n") == ([] if frame is None else [frame])


@pytest.mark.parametrize(
    ("pending", "count"),
    [
        (b'data: {"a":1}', 1),
        (b"data: [DONE]", 1),
        (b'data: {"a":', 0),
        (b"data: [DO", 0),
        (b": c", 0),
        (b"", 0),
        (b"data: " + b"[" * 100000, 0),
    ],
)
def test_a_clean_end_completes_only_what_is_whole(pending, count):
    framer = SseFramer()
    framer.feed(pending)

    assert len(framer.finish()) == count


def test_a_byte_order_mark_counts_at_the_start_of_a_body_only():
    """Also where the first read is one whole event, which is not taken apart, and where the mark is cut."""
    marked = b"\xef\xbb\xbfdata: b\n\n"
    whole, cut = SseFramer(), SseFramer()

    assert SseFramer().feed(marked) == [Frame("b")]
    assert whole.whole(b"data: a\n\n") == Frame("a")
    assert whole.feed(marked) == []  # of a field that nobody knows
    assert cut.feed(marked[:2]) == []
    assert not cut.is_between
    assert cut.feed(marked[2:]) == [Frame("b")]


def test_a_json_body_is_one_frame_at_its_end_without_its_byte_order_mark():
    framer = JsonBodyFramer()

    assert framer.feed(b'\xef\xbb\xbf {"a"') == []
    assert framer.feed(b":1}") == []
    assert framer.finish() == [Frame(' {"a":1}')]


def test_an_unterminated_last_json_line_counts_only_when_it_is_whole():
    for rest, frames in ((b'{"b":2}', [Frame('{"b":2}')]), (b'{"b":', [])):
        framer = JsonLinesFramer()

        assert framer.feed(b'\xef\xbb\xbf{"a":1}\r\n\n' + rest) == [Frame('{"a":1}')]
        assert framer.finish() == frames


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"", None),
        (b" \r\n\t", None),
        (b"\xef\xbb", None),
        (b"\xef\xbb\xbf ", None),
        (b"\xef\xbb\xbf {", BodyForm.OBJECTS),
        (b"\n[", BodyForm.ARRAY),
        (b"data", BodyForm.EVENTS),
        (b":", BodyForm.EVENTS),
        (b"<", BodyForm.EVENTS),
    ],
)
def test_the_first_bytes_tell_json_from_events(start, expected):
    assert form_of(start) is expected


@pytest.mark.parametrize("framer", [SseFramer(), JsonLinesFramer()], ids=["sse", "lines"])
def test_two_megabytes_byte_by_byte_take_linear_time(framer):
    body = b"data: " + b"x" * 2_000_000 + b"\n\n"
    started_ns = now_ns()

    frames = feed_all(framer, [body[i : i + 1] for i in range(len(body))])

    assert len(frames) == 1
    assert now_ns() - started_ns < 30 * NS_PER_S
