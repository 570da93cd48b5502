"""Goodput: requests that met every objective, per second; everything else is a miss."""

import math

import pytest

from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.core.token_events import TokenEvent
from phasemeter.metrics import GAP, TTFT, goodput_per_s, meets


def make_timeline(*times_ns, outcome=Outcome.OK):
    events = tuple(TokenEvent(t_ns, "content", None, i) for i, t_ns in enumerate(times_ns))
    return Timeline(
        request_id="r",
        dialect="openai.chat",
        operation="chat",
        model=None,
        stamp_source="recv",
        started_ns=0,
        ended_ns=999,
        outcome=outcome,
        events=events,
    )


SLOS = [(TTFT, 50), (GAP, 20)]


@pytest.mark.parametrize(
    ("times_ns", "expected"),
    [
        ((50, 70, 90), True),  # each limit is met exactly
        ((51, 60), False),  # first token late
        ((40, 50, 71), False),  # one gap of 21 among good ones
        ((), False),  # no token: both undefined
        ((40,), False),  # one event has no gap, and what is undefined does not meet
    ],
)
def test_a_response_is_good_only_if_no_sample_of_any_objective_is_above_its_limit(
    times_ns, expected
):
    assert meets(make_timeline(*times_ns), SLOS) is expected


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.OK])
def test_only_an_ok_response_can_be_good(outcome):
    assert not meets(make_timeline(10, 20, outcome=outcome), SLOS)


def test_goodput_counts_good_requests_over_the_window():
    """Three requests, two of them good, in 4 s: 0.5 per second."""
    timelines = [make_timeline(10, 20), make_timeline(90, 99), make_timeline(30, 40)]

    assert goodput_per_s(timelines, SLOS, 4.0) == 0.5
    assert goodput_per_s([], SLOS, 4.0) == 0.0


@pytest.mark.parametrize("window_s", [0.0, -1.0, math.nan])
def test_a_window_must_be_positive(window_s):
    with pytest.raises(ValueError, match="window_s must be > 0"):
        goodput_per_s([], SLOS, window_s)
