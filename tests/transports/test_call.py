"""What the transport knows of the gaps."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.token_events import TokenEvent
from phasemeter.dialects import by_name
from phasemeter.transports.call import judged

MS = 1_000_000


def timeline_of(source, *events):
    """Events as (time in ms, read)."""
    meter = StreamMeter(
        by_name("openai.chat"), request_id="x", model="m", started_ns=0, stamp_source=source
    )
    made = tuple(TokenEvent(t * MS, "content", 1, read) for t, read in events)
    return replace(meter.finish(0, StreamEnd.EOF), events=made)


def limited(timeline, waited_ms):
    waited_ns = {t * MS: away * MS for t, away in waited_ms.items()}
    return [event.consumer_limited for event in judged(timeline, waited_ns)]


@pytest.mark.parametrize("source", ["recv", "kernel"])
def test_a_read_that_had_waited_for_half_of_its_gap_is_limited(source):
    """All events of it; a short absence is not."""
    timeline = timeline_of(source, (0, 0), (60, 1), (60, 1), (80, 2))

    assert limited(timeline, {60: 50}) == [False, True, True, False]
    assert limited(timeline, {60: 30}) == [False, True, True, False]
    assert limited(timeline, {60: 29}) == [False] * 4


def test_a_kernel_stamp_of_an_event_that_came_alone_is_its_arrival():
    """A read's time is the asking's, and so never."""
    events = ((0, 0), (20, 1))
    assert limited(timeline_of("kernel", *events), {20: 50}) == [False, False]
    assert limited(timeline_of("recv", *events), {20: 50}) == [False, True]


def test_the_first_read_has_no_gap():
    timeline = timeline_of("recv", (20, 0), (20, 0), (40, 1))
    assert limited(timeline, {20: 100}) == [False, False, False]


STEPS = st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.none() | st.integers(1, 40)))


@given(STEPS, st.sampled_from(["recv", "kernel"]))
def test_each_event_is_judged_by_the_last_one_of_an_earlier_read(steps, source):
    """As one would look at them one by one; a read's events have its time."""
    events, waited_ms, t_ms, read = [], {}, 0, 0
    for step_ms, same, away_ms in steps:
        t_ms, read = (t_ms, read) if same else (t_ms + step_ms, read + 1)
        events.append((t_ms, read))
        if away_ms is not None:
            waited_ms[t_ms] = away_ms

    expected = []
    for t_ms, read in events:
        earlier_ms = [t for t, other in events if other < read]
        alone = [other for _, other in events].count(read) == 1
        gap_ms = t_ms - earlier_ms[-1] if earlier_ms else 0
        within = 0 < gap_ms <= 2 * waited_ms.get(t_ms, 0)
        expected.append(within and not (source == "kernel" and alone))

    assert limited(timeline_of(source, *events), waited_ms) == expected
