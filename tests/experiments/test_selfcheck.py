"""What the self-check makes of measured and true times, worked by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from phasemeter.analysis.records import RunRecords
from phasemeter.core.timeline import Outcome
from phasemeter.experiments.selfcheck import (
    STEPS,
    TOKENS_PER_S,
    ClockWatch,
    SentStream,
    believed_events_per_s,
    better_of,
    check_plan,
    clock_resolution_ns,
    compare,
    compare_steps,
)
from tests.analysis.run_factory import MS, make_timeline


def run_of(*timelines):
    return RunRecords(Path("run"), {}, timelines)


def sent(*emits_ms, received_ms=0.0):
    return SentStream(round(received_ms * MS), [round(t_ms * MS) for t_ms in emits_ms])


def test_errors_are_measured_minus_true():
    """True: 100 ms to the first token, gaps of 20. Measured: 102 ms, and gaps of 20 and 21."""
    timeline = make_timeline("a", sent_ms=0, first_ms=102, gaps_ms=(20, 21))

    step = compare(1, [timeline], {"a": sent(100, 120, 140)})

    assert step.gap_p99_ms == pytest.approx(20.99)
    assert step.true_gap_p99_ms == pytest.approx(20)
    assert step.gap_error_ms == pytest.approx(0.99)
    assert step.ttft_error_p99_ms == pytest.approx(2)
    # three events within 40 ms
    assert step.events_per_s == pytest.approx(75)
    assert not step.is_believed


def test_gaps_lost_to_one_read_count_against_a_step():
    """One of two gaps is unknown."""
    timeline = make_timeline("a", sent_ms=0, first_ms=100, gaps_ms=(20, 0), coalesced=(2,))

    step = compare(1, [timeline], {"a": sent(100, 120, 120)})

    assert step.coalesced_share == 0.5
    assert not step.is_believed


def test_a_step_within_every_limit_is_believed():
    timeline = make_timeline(
        "a", start_ms=3, intended_ms=0, sent_ms=0, first_ms=100.1, gaps_ms=(20.1, 20.0)
    )

    step = compare(1, [timeline], {"a": sent(100, 120, 140)})

    assert step.is_believed
    assert step.send_lag_p99_ms == 3
    assert step.to_json()["believed"] is True


def test_failed_and_unknown_requests_are_left_out():
    failed = make_timeline("a", first_ms=100, gaps_ms=(20,), outcome=Outcome.TRUNCATED)
    unknown = make_timeline("b", first_ms=100, gaps_ms=(20,))

    assert compare(2, [failed, unknown], {"a": sent(100, 120)}) is None


def test_belief_ends_with_the_first_load_that_is_wrong():
    """A heavier load that happens to look right does not bring it back."""
    timeline = make_timeline("a", sent_ms=0, first_ms=100, gaps_ms=(20, 20))
    good = compare(1, [timeline], {"a": sent(100, 120, 140)})
    bad = replace(good, gap_p99_ms=25.0, events_per_s=150.0)
    lucky = replace(good, events_per_s=300.0)
    assert better_of([good, bad], [replace(bad, gap_p99_ms=24.0)]) == [good, bad]
    assert better_of([good, bad], [replace(good, events_per_s=150.0)])[1].is_believed

    assert believed_events_per_s([good, bad, lucky]) == good.events_per_s
    assert believed_events_per_s([bad]) is None


def test_a_step_asks_for_each_stream_once_and_ends_before_the_next():
    plan = check_plan((16, 64))

    assert [flow.users for flow in plan.flows] == [16, 64]
    assert [flow.max_requests for flow in plan.flows] == [16, 64]
    first, second = plan.flows
    longest_s = first.spread_s + 0.1 + first.mix[0].output_tokens / TOKENS_PER_S
    assert first.start_s + longest_s < second.start_s
    assert list(STEPS) == sorted(STEPS)


def test_the_steps_of_a_run_are_told_apart_by_their_tag():
    light = make_timeline(
        "a", sent_ms=0, first_ms=100, gaps_ms=(20,), tags={"class": "check", "streams": "16"}
    )
    heavy = replace(light, request_id="b", tags={"class": "check", "streams": "64"})
    truth = {"a": sent(100, 120), "b": sent(100, 140)}

    steps = compare_steps(run_of(heavy, light), truth)

    assert [step.streams for step in steps] == [16, 64]
    assert [step.gap_error_ms for step in steps] == [0, -20]


def test_a_wall_clock_that_is_set_is_counted_and_drift_is_not():
    """By 10 us, then by 2 ms, then back by 2 ms."""
    watch = ClockWatch([0, 10_000, 2_010_000, 10_000])

    assert watch.steps == 2
    assert watch.drift_us == 2_010
    assert ClockWatch().drift_us is None


def test_the_clock_has_a_step():
    assert 0 < clock_resolution_ns() < 1_000_000
