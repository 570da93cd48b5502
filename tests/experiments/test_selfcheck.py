"""What the self-check makes of measured and true times, worked by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from phasemeter.analysis.records import RunRecords, WorkerEnd
from phasemeter.core.timeline import Outcome
from phasemeter.experiments.selfcheck import (
    STEPS,
    SentStream,
    believed_events_per_s,
    clock_resolution_ns,
    compare,
    step_plan,
)
from tests.analysis.run_factory import MS, make_timeline


def run_of(*timelines, workers=()):
    return RunRecords(Path("run"), {}, timelines, workers=workers)


def sent(*emits_ms, received_ms=0.0):
    return SentStream(round(received_ms * MS), [round(t_ms * MS) for t_ms in emits_ms])


def test_errors_are_measured_minus_true():
    """True: 100 ms to the first token, gaps of 20. Measured: 102 ms, and gaps of 20 and 21."""
    timeline = make_timeline("a", sent_ms=0, first_ms=102, gaps_ms=(20, 21))

    step = compare(1, run_of(timeline), {"a": sent(100, 120, 140)})

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

    step = compare(1, run_of(timeline), {"a": sent(100, 120, 120)})

    assert step.coalesced_share == 0.5
    assert not step.is_believed


def test_a_step_within_every_limit_is_believed():
    timeline = make_timeline("a", sent_ms=0, first_ms=100.1, gaps_ms=(20.1, 20.0))
    worker = WorkerEnd(0, "done", send_lag_ns=(1e5, 3e6, 4e6))

    step = compare(1, run_of(timeline, workers=(worker,)), {"a": sent(100, 120, 140)})

    assert step.is_believed
    assert step.send_lag_p99_ms == 3
    assert step.to_json()["believed"] is True


def test_failed_and_unknown_requests_are_left_out():
    failed = make_timeline("a", first_ms=100, gaps_ms=(20,), outcome=Outcome.TRUNCATED)
    unknown = make_timeline("b", first_ms=100, gaps_ms=(20,))

    assert compare(2, run_of(failed, unknown), {"a": sent(100, 120)}) is None


def test_belief_ends_with_the_first_load_that_is_wrong():
    """A heavier load that happens to look right does not bring it back."""
    timeline = make_timeline("a", sent_ms=0, first_ms=100, gaps_ms=(20, 20))
    good = compare(1, run_of(timeline), {"a": sent(100, 120, 140)})
    bad = replace(good, gap_p99_ms=25.0, events_per_s=150.0)
    lucky = replace(good, events_per_s=300.0)

    assert believed_events_per_s([good, bad, lucky]) == good.events_per_s
    assert believed_events_per_s([bad]) is None


def test_a_step_asks_for_each_stream_once():
    plan = step_plan(64)

    assert plan.flows[0].users == plan.flows[0].max_requests == 64
    assert plan.flows[0].mix[0].output_tokens == 100
    assert list(STEPS) == sorted(STEPS)


def test_the_clock_has_a_step():
    assert 0 < clock_resolution_ns() < 1_000_000
