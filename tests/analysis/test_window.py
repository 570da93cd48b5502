"""The steady window and the rates over it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_factory import MS, make_timeline

from phasemeter.analysis.window import Window, steady_window, whole_window


def busy(*spans_ms):
    return [
        make_timeline(f"r{i}", start_ms=start, end_ms=end)
        for i, (start, end) in enumerate(spans_ms)
    ]


def test_ramp_and_drain_are_cut_off():
    """Five users join every 10 ms, stay, and leave every 10 ms: the level is 5, 80 % of it is 4.

    Four are in flight from 30 ms (the fourth joins) to 110 ms (the second leaves).
    """
    users = busy((0, 100), (10, 110), (20, 120), (30, 130), (40, 140))

    assert steady_window(users) == Window(30 * MS, 110 * MS)
    assert whole_window(users) == Window(0, 140 * MS)


def test_a_dip_in_the_middle_stays_inside():
    """Both users' answers end at 50 ms and the next start at 51 ms: one window."""
    users = busy((0, 50), (0, 50), (51, 100), (51, 100))

    assert steady_window(users) == Window(0, 100 * MS)


def test_one_burst_does_not_decide_the_level():
    """A burst of 10 for 2 ms in 100 ms of one in flight leaves the level at 1."""
    users = busy((0, 100), *[(50, 52)] * 10)

    assert steady_window(users) == Window(0, 100 * MS)


@pytest.mark.parametrize("spans", [(), ((5, 5),)])
def test_no_time_no_window(spans):
    """Without responses, or with ones that took no time, there is no window."""
    assert steady_window(busy(*spans)) is None
    assert whole_window(busy(*spans)) is None


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 500)), min_size=1, max_size=40))
def test_the_steady_window_lies_within_the_run(spans):
    """It is never empty and never larger than the run."""
    users = busy(*((start, start + length) for start, length in spans))

    steady, whole = steady_window(users), whole_window(users)

    assert whole.start_ns <= steady.start_ns < steady.end_ns <= whole.end_ns
