"""The pacing is a pure plan of writes."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.core.errors import UsageError
from phasemeter.testing.truth.pacing import Pacing, parse_pacing, writes


def planned_ms(events, **settings):
    pacing = Pacing(**settings)
    return [(ns / 1e6, count) for ns, count in writes(pacing, events, Random(1))]


def test_events_leave_at_even_times():
    assert planned_ms(3, ttft_ms=100, gap_ms=10) == [(100, 1), (110, 1), (120, 1)]


def test_a_stall_comes_after_every_so_many_events():
    planned = planned_ms(5, ttft_ms=0, gap_ms=10, stall_ms=50, stall_every=2)

    assert [t_ms for t_ms, _ in planned] == [0, 10, 70, 80, 140]


def test_a_clump_leaves_when_its_last_event_is_due():
    """Events at 0, 10, 20, 30, 40 in clumps of two: the odd one out leaves alone."""
    planned = planned_ms(5, ttft_ms=0, gap_ms=10, clump_events=2)

    assert planned == [(10, 2), (30, 2), (40, 1)]


@given(
    st.integers(1, 60),
    st.floats(0, 50),
    st.floats(0, 50),
    st.integers(1, 7),
    st.integers(0, 2**32),
)
def test_every_event_is_planned_once_and_never_before_its_predecessor(
    events, ttft_spread_ms, gap_spread_ms, clump_events, seed
):
    pacing = Pacing(
        ttft_spread_ms=ttft_spread_ms, gap_spread_ms=gap_spread_ms, clump_events=clump_events
    )
    planned = list(writes(pacing, events, Random(seed)))
    offsets_ns = [offset_ns for offset_ns, _ in planned]

    assert sum(count for _, count in planned) == events
    assert offsets_ns == sorted(offsets_ns)
    assert offsets_ns[0] >= 0


def test_settings_are_read_by_name():
    pacing = parse_pacing("gap_ms=5, clump_events=3,stamped=1", Pacing(ttft_ms=9))

    assert pacing == Pacing(ttft_ms=9, gap_ms=5, clump_events=3, stamped=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gab_ms=5", "unknown setting 'gab_ms'; accepted: ttft_ms"),
        ("gap_ms=-1", "gap_ms must be a number from 0 up, got '-1'"),
        ("gap_ms=inf", "gap_ms must be"),
        ("gap_ms=nan", "gap_ms must be"),
        ("clump_events=0", "clump_events must be a number from 1 up, got '0'"),
        ("tokens=1.5", "tokens must be a number from 1 up, got '1.5'"),
    ],
)
def test_a_wrong_setting_is_named(text, said):
    with pytest.raises(UsageError, match=said):
        parse_pacing(text, Pacing())
