"""Rates by hand."""

import pytest
from run_factory import MS, make_timeline

from phasemeter.analysis.throughput import throughput
from phasemeter.analysis.window import Window
from phasemeter.core.timeline import Outcome


def test_rates_of_the_whole_run():
    """Two ok responses of 3 events with 2 tokens each in 0.5 s: 4 requests/s, 12 events/s, 24 tokens/s."""
    timelines = [
        make_timeline("a", first_ms=100, gaps_ms=(100, 100), tokens=2),
        make_timeline("b", start_ms=100, first_ms=300, gaps_ms=(100, 100), tokens=2),
    ]

    rates = throughput(timelines)

    assert rates["tokens_from"] == "events"
    assert rates["whole"] == {
        "start_s": 0.0,
        "end_s": 0.5,
        "duration_s": 0.5,
        "requests_per_s": 4.0,
        "output_tokens_per_s": 24.0,
        "token_events_per_s": 12.0,
    }


def test_only_ok_responses_count():
    """Tokens of a response that broke off are nobody's throughput; its time counts."""
    timelines = [
        make_timeline("a", first_ms=100),
        make_timeline("b", first_ms=200, end_ms=1000, outcome=Outcome.TRUNCATED),
    ]

    whole = throughput(timelines)["whole"]

    assert whole["requests_per_s"] == 1.0
    assert whole["output_tokens_per_s"] == 1.0


def test_usage_is_spread_over_events_that_do_not_tell_their_tokens():
    """Usage says 8 tokens in 2 events: 4 each, and the report says where that comes from."""
    timeline = make_timeline("a", first_ms=500, gaps_ms=(500,), tokens=None, usage_tokens=8)

    rates = throughput([timeline])

    assert rates["tokens_from"] == "usage"
    assert rates["whole"]["output_tokens_per_s"] == pytest.approx(8.0)


def test_tokens_nobody_tells_are_unknown_not_zero():
    """One response without any count makes the token rate unknown; events are still counted."""
    told = make_timeline("a", first_ms=500)
    untold = make_timeline("b", first_ms=500, gaps_ms=(500,), tokens=None)

    rates = throughput([told, untold])

    assert rates["tokens_from"] == "unknown"
    assert rates["whole"]["output_tokens_per_s"] is None
    assert rates["whole"]["token_events_per_s"] == 3.0


def test_nothing_ended_no_rates():
    """Both windows are missing, not zero."""
    assert throughput([]) == {"whole": None, "steady": None, "tokens_from": "unknown"}


def test_given_windows_stand_for_the_whole_run():
    """Repeats of one arm among others: 2 tokens within 0.2 s + 0.2 s, whatever lies between."""
    timelines = [
        make_timeline("a", start_ms=0, first_ms=100),
        make_timeline("b", start_ms=5000, first_ms=5100),
    ]
    repeats = [Window(0, 200 * MS), Window(5000 * MS, 5200 * MS)]

    rates = throughput(timelines, repeats)

    assert rates["whole"]["duration_s"] == pytest.approx(0.4)
    assert rates["whole"]["output_tokens_per_s"] == pytest.approx(5.0)
    assert rates["whole"]["requests_per_s"] == pytest.approx(5.0)
    assert rates["steady"] is None
