"""What the transport knows of the gaps."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.token_events import TokenEvent
from phasemeter.dialects import by_name
from phasemeter.transports.limited_gaps import judged

MS = 1_000_000


def timeline_of(source, *events):
    """Events as (time in ms, read)."""
    meter = StreamMeter(
        by_name("openai.chat"), request_id="x", model="m", started_ns=0, stamp_source=source
    )
    made = tuple(TokenEvent(t * MS, "content", 1, read) for t, read in events)
    return replace(meter.finish(0, StreamEnd.EOF), events=made)


def limited(timeline, waited_ms, shared_reads=()):
    waited_ns = {t * MS: away * MS for t, away in waited_ms.items()}
    return [event.consumer_limited for event in judged(timeline, waited_ns, shared_reads)]


@pytest.mark.parametrize("source", ["recv", "kernel"])
def test_a_read_that_may_be_late_by_a_tenth_of_its_gap_is_limited(source):
    """All events of it; a shorter absence is none."""
    timeline = timeline_of(source, (0, 0), (60, 1), (60, 1), (160, 2))

    assert limited(timeline, {60: 6}) == [False, True, True, False]
    assert limited(timeline, {60: 5}) == [False] * 4


def test_the_gap_after_a_late_read_may_be_too_short():
    """It came up to 50 ms before its stamp, and so the gap of 20 ms may be one of 70."""
    timeline = timeline_of("recv", (0, 0), (1000, 1), (1020, 2), (1020, 2), (1040, 3))

    assert limited(timeline, {1000: 50}) == [False, False, True, True, False]
    assert limited(timeline, {1000: 1}) == [False] * 5


def test_a_kernel_stamp_of_an_event_that_came_alone_is_its_arrival():
    """Both gaps beside it are right; a read's time is the asking's, and so never."""
    events = ((0, 0), (20, 1), (40, 2))
    assert limited(timeline_of("kernel", *events), {20: 50}) == [False, False, False]
    assert limited(timeline_of("recv", *events), {20: 50}) == [False, True, True]


def test_a_kernel_stamp_of_several_events_is_the_last_ones():
    """So the gap after them is right."""
    timeline = timeline_of("kernel", (0, 0), (20, 1), (20, 1), (40, 2))
    assert limited(timeline, {20: 50}) == [False, True, True, False]


def test_a_kernel_stamp_of_a_read_that_brought_more_is_that_of_the_rest():
    """The finish chunk, or half of the next event."""
    timeline = timeline_of("kernel", (0, 0), (20, 1), (40, 2))
    assert limited(timeline, {20: 50}, {1}) == [False, True, True]


def test_the_first_read_has_no_gap_before_it():
    timeline = timeline_of("recv", (20, 0), (20, 0), (40, 1))
    assert limited(timeline, {20: 100}) == [False, False, True]
    assert limited(timeline, {20: 1}) == [False, False, False]


STEPS = st.lists(st.tuples(st.integers(1, 300), st.booleans(), st.none() | st.integers(1, 40)))


@given(STEPS, st.sampled_from(["recv", "kernel"]), st.sets(st.integers(0, 8)))
def test_every_gap_left_is_right_within_a_tenth(steps, source, shared_reads):
    """As one would look at them one by one, from by how much each end of a gap may be late."""
    events, waited_ms, t_ms, read = [], {}, 0, 0
    for step_ms, same, away_ms in steps:
        t_ms, read = (t_ms, read) if same else (t_ms + step_ms, read + 1)
        events.append((t_ms, read))
        if away_ms is not None:
            waited_ms[t_ms] = away_ms

    def late_ms(t_ms, read, is_exact):
        exact = source == "kernel" and read not in shared_reads and is_exact
        return 0 if exact else waited_ms.get(t_ms, 0)

    limited_reads = set()
    for (t1_ms, read1), (t2_ms, read2) in pairwise(events):
        if read1 == read2:
            continue
        alone = [read for _, read in events].count(read2) == 1
        late = max(late_ms(t1_ms, read1, is_exact=True), late_ms(t2_ms, read2, is_exact=alone))
        if t2_ms - t1_ms <= 10 * late:
            limited_reads.add(read2)

    expected = [read in limited_reads for _, read in events]
    assert limited(timeline_of(source, *events), waited_ms, shared_reads) == expected
