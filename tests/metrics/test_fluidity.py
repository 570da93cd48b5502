"""Fluidity in the semantics of Etalon's published code, worked by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.core.token_events import TokenEvent
from phasemeter.metrics import fluidity


def make_timeline(*times_ns, reads=None, **fields):
    settled = {"request_id": "r", "dialect": "openai.chat", "operation": "chat", "model": None}
    settled |= {"stamp_source": "recv", "started_ns": 0, "ended_ns": 999, "outcome": Outcome.OK}
    reads = range(len(times_ns)) if reads is None else reads
    events = (TokenEvent(t, "content", None, r) for t, r in zip(times_ns, reads, strict=True))
    return Timeline(**(settled | fields), events=tuple(events))


@pytest.mark.parametrize(
    ("times_ns", "expected"),
    [
        # deadlines: 100 for the first token, 50 for each later one
        ((100, 150, 200), 3 / 3),  # each exactly at its deadline
        ((60, 150), 2 / 2),  # 40 won by the first token, so the second may take 50 + 40
        ((60, 151), 1 / 2),  # (91 - 40) // 50 = 1 miss; the late token itself meets nothing
        ((250,), 0 / 4),  # late by 150 = 3 x 50: misses 1 + 3
        ((101,), 0 / 1),
        ((100, 350), 1 / 6),  # a gap of 250 holds 5 deadlines
        ((100, 350, 400), 2 / 7),  # and the slack starts again at 0
        ((50, 250, 299), 2 / 5),  # slack 50: (200 - 50) // 50 = 3 misses, then 49 <= 50
    ],
)
def test_a_stall_misses_as_many_deadlines_as_fit_into_it(times_ns, expected):
    share = fluidity(make_timeline(*times_ns), ttft_deadline_ns=100, gap_deadline_ns=50)

    assert share == pytest.approx(expected)


def test_a_coalesced_event_meets_its_deadline_and_wins_its_slack():
    """Two tokens every 100 at one token per 50: nobody waits, as each read brings two ahead."""
    timeline = make_timeline(100, 100, 200, 200, 300, 300, reads=(0, 0, 1, 1, 2, 2))

    assert fluidity(timeline, ttft_deadline_ns=100, gap_deadline_ns=50) == 1.0


def test_without_a_token_or_a_stream_it_is_unknown():
    assert fluidity(make_timeline(), ttft_deadline_ns=1, gap_deadline_ns=1) is None
    whole = make_timeline(5, streamed=False)
    assert fluidity(whole, ttft_deadline_ns=9, gap_deadline_ns=9) is None


@pytest.mark.parametrize(("ttft_ns", "gap_ns"), [(0, 1), (1, 0), (-1, 1)])
def test_a_deadline_must_be_positive(ttft_ns, gap_ns):
    with pytest.raises(ValueError, match="deadlines must be > 0 ns"):
        fluidity(make_timeline(5), ttft_deadline_ns=ttft_ns, gap_deadline_ns=gap_ns)


def etalon(gaps, ttft_deadline, gap_deadline):
    """The published loop: the list of gaps starts with the time to first token."""
    slack = missed = total = 0
    for i, gap in enumerate(gaps):
        deadline = gap_deadline if i else ttft_deadline
        if gap <= deadline + slack:
            slack += deadline - gap
            total += 1
            continue
        late = (gap - slack) // gap_deadline if i else 1 + (gap - ttft_deadline) // gap_deadline
        missed += late
        total += late
        slack = 0
    return 1 - missed / total


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=12), st.integers(1, 200), st.integers(1, 90)
)
def test_it_is_etalons_figure_for_any_stream(gaps, ttft_deadline_ns, gap_deadline_ns):
    times_ns = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    share = fluidity(
        make_timeline(*times_ns),
        ttft_deadline_ns=ttft_deadline_ns,
        gap_deadline_ns=gap_deadline_ns,
    )

    assert share == pytest.approx(etalon(gaps, ttft_deadline_ns, gap_deadline_ns))
