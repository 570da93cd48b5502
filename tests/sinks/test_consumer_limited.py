"""Which gaps the application made itself."""

import pytest

from phasemeter.core.timeline import Outcome, Timeline, TokenEvent
from phasemeter.sinks.consumer_limited import limited_gaps

MS = 1_000_000


@pytest.mark.parametrize(
    ("waits_ms", "limited"),
    [
        ((49.9, 1), 1),  # asked 0.1 ms before the read: it had been there
        ((30, 1), 0),  # waited 20 ms for the server after asking
        ((0.1, 20.5), 1),
        ((50, 21), 2),
        ((), None),  # nobody was handed anything
    ],
)
def test_a_gap_counts_when_the_next_event_was_there_before_it_was_asked_for(waits_ms, limited):
    """Gaps of 50 and 21 ms."""
    times_ms = (100, 150, 171)
    timeline = Timeline(
        request_id="r",
        dialect="d",
        operation="chat",
        model=None,
        stamp_source="recv",
        started_ns=0,
        ended_ns=171 * MS,
        outcome=Outcome.OK,
        events=tuple(TokenEvent(t * MS, "content", None, i) for i, t in enumerate(times_ms)),
        consumer_waits_ns=tuple(round(wait * MS) for wait in waits_ms),
    )

    assert limited_gaps(timeline) == limited
