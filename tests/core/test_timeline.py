"""Derived instants of a timeline, worked by hand."""

from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.timeline import Leg, Outcome, Timeline, shifted
from phasemeter.core.token_events import TokenEvent


def make_timeline(events=(), **fields):
    settled = {"request_id": "r", "dialect": "openai.chat", "operation": "chat", "model": None}
    settled |= {"stamp_source": "recv", "started_ns": 0, "ended_ns": 999, "outcome": Outcome.OK}
    return Timeline(**(settled | fields), events=tuple(events))


def test_the_answer_starts_with_the_first_content_not_with_reasoning_or_refusal():
    timeline = make_timeline(
        [
            TokenEvent(20, "reasoning", None, 0),
            TokenEvent(30, "refusal", None, 1),
            TokenEvent(50, "content", None, 2),
        ]
    )

    assert (timeline.first_token_ns, timeline.first_answer_ns, timeline.last_token_ns) == (
        20,
        50,
        50,
    )
    assert (timeline.prefill_s, timeline.decode_s) == (20e-9, 30e-9)


def test_without_a_token_nothing_of_tokens_is_known():
    timeline = make_timeline()

    assert timeline.first_token_ns is timeline.first_answer_ns is timeline.last_token_ns is None
    assert timeline.prefill_s is timeline.decode_s is None
    assert (list(timeline.gaps()), timeline.coalesced_events) == ([], 0)


_EVENTS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


@settings(deadline=None, max_examples=100)
@given(_EVENTS)
def test_gaps_and_coalesced_events_are_all_events_but_the_first(steps):
    events, t_ns, read = [], 0, 0
    for step_ns, same in steps:
        t_ns, read = (t_ns, read) if same else (t_ns + step_ns, read + 1)
        events.append(TokenEvent(t_ns, "content", None, read))
    timeline = make_timeline(events)

    assert len(list(timeline.gaps())) + timeline.coalesced_events == len(events) - 1


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=30))
def test_gaps_are_those_that_a_consumer_limited_and_the_others(steps):
    """Worked out by columns; one by one they are the same."""
    events, t_ns, read = [], 0, 0
    for step_ns, same, limited in steps:
        t_ns, read = (t_ns, read) if same else (t_ns + step_ns, read + 1)
        events.append(TokenEvent(t_ns, "content", None, read, limited))
    timeline = make_timeline(events)

    free_ns = [gap_ns for gap_ns, later in timeline.gaps() if not later.consumer_limited]
    assert list(timeline.gaps_ns()) == free_ns
    assert list(timeline.ordered_gaps_ns()) == sorted(free_ns)
    assert list(timeline.limited_gaps_ns()) == [
        gap_ns for gap_ns, later in timeline.gaps() if later.consumer_limited
    ]


def test_a_shifted_timeline_has_every_instant_moved_and_every_duration_kept():
    leg = Leg("prefill", 5, None, 9)
    timeline = make_timeline(
        (TokenEvent(150, "content", 1, 0), TokenEvent(170, "content", 1, 1)),
        sent_ns=120,
        intended_ns=None,
        legs=(leg,),
    )

    moved = shifted(timeline, 1_000)

    assert (moved.started_ns, moved.ended_ns) == (
        timeline.started_ns + 1_000,
        timeline.ended_ns + 1_000,
    )
    assert moved.sent_ns == 1_120
    assert moved.intended_ns is None
    assert [event.t_ns for event in moved.events] == [1_150, 1_170]
    assert [gap for gap, _ in moved.gaps()] == [20]
    assert moved.legs == (Leg("prefill", 1_005, None, 1_009),)
    assert shifted(moved, -1_000) == timeline
