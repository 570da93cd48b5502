"""Every recorded stream is measured as its rules say, and the same however its bytes are cut."""

import dataclasses
import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.testing.recorded import RecordedCase, differences, summary_of

STREAMS = Path(__file__).parents[1] / "streams"
CASES = [RecordedCase.load(path) for path in sorted(STREAMS.glob("*.json"))]

_TIMELESS = (
    "outcome",
    "error",
    "output_tokens",
    "input_tokens",
    "cached_input_tokens",
    "reasoning_tokens",
    "finish_reason",
    "choices",
)


def cut(case, places):
    """Return the case with its bytes read in pieces, one ns apart, cut at the given places."""
    body = b"".join(data for _, data in case.reads)
    edges = [0, *sorted({place for place in places if 0 < place < len(body)}), len(body)]
    pieces = [body[a:b] for a, b in itertools.pairwise(edges) if a < b]
    return dataclasses.replace(case, reads=tuple(enumerate(pieces, start=1)), end_ns=len(body) + 2)


def timeless(timeline):
    summary = summary_of(timeline)
    told = {name: summary[name] for name in _TIMELESS}
    kinds = [(event.kind, event.tokens) for event in timeline.events]
    return told, kinds, timeline.response_model, timeline.streamed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_recorded_stream_is_measured_as_expected(case):
    assert case.expect
    assert differences(case.run(), case.expect) == {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reads_of_one_byte_tell_the_same_apart_from_the_times(case):
    size = sum(len(data) for _, data in case.reads)

    assert timeless(cut(case, range(size)).run()) == timeless(case.run())


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(CASES), st.lists(st.floats(0, 1), max_size=12))
def test_cuts_anywhere_tell_the_same_apart_from_the_times(case, shares):
    size = sum(len(data) for _, data in case.reads)
    places = [round(share * size) for share in shares]

    assert timeless(cut(case, places).run()) == timeless(case.run())


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(CASES), st.floats(0, 1))
def test_a_stream_cut_off_anywhere_never_raises_and_keeps_its_sums(case, share):
    body = b"".join(data for _, data in case.reads)
    kept = body[: round(share * len(body))]
    timeline = dataclasses.replace(case, reads=((1, kept),)).run()

    if timeline.events:
        assert len(list(timeline.gaps())) + timeline.coalesced_events == len(timeline.events) - 1


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(CASES), st.data())
def test_a_stream_with_damaged_bytes_never_raises(case, data):
    body = bytearray(b"".join(piece for _, piece in case.reads))
    for _ in range(min(3, len(body))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    dataclasses.replace(case, reads=((1, bytes(body)),)).run()
