"""Detectors that look at a run as a whole: silent when all is well, with figures when not."""

from dataclasses import replace
from pathlib import Path

import pytest
from run_factory import MS, issued_of, make_timeline
from test_health import worker

from phasemeter.analysis.records import RunRecords
from phasemeter.analysis.run_detectors import (
    arrival_slots_missed,
    client_stalls,
    detect_in_run,
    prefills_far_too_fast,
    rate_not_achieved,
)
from phasemeter.analysis.ttft_curve import TtftCurve, fit_ttft_curve
from phasemeter.core.timeline import Usage
from phasemeter.load.plan import ArrivalFlow, Plan, planned_arrivals_ns
from phasemeter.load.workload import RequestClass

FLOW = ArrivalFlow("arrivals", (RequestClass("one", 8, 4),), 20.0, "constant", 0.0, 5.0)
MANIFEST = {"kind": "load", "plan": Plan((FLOW,), 5.0, 5.0, seed=1).as_document()}


def open_loop(*, late_ms=lambda number: 0, takes_ms=lambda number: 200, issued=100):
    """100 arrivals 50 ms apart."""
    timelines = [
        make_timeline(
            str(number),
            intended_ms=50 * number,
            start_ms=50 * number + late_ms(number),
            first_ms=50 * number + late_ms(number) + takes_ms(number),
        )
        for number in range(issued)
    ]
    return RunRecords(
        Path("run"), MANIFEST, tuple(timelines), tuple(issued_of(one) for one in timelines)
    )


def test_the_plan_is_read_back_from_the_manifest():
    assert planned_arrivals_ns(MANIFEST["plan"]) == [50 * MS * number for number in range(100)]


@pytest.mark.parametrize(
    "document",
    [{}, {"flows": 3}, {"flows": [{"kind": "arrivals"}]}, {"flows": [{"kind": "users"}]}],
)
def test_what_is_no_open_loop_has_no_arrivals(document):
    assert planned_arrivals_ns(document) == []


def test_a_loop_that_stood_still_is_told_with_its_longest_time():
    """Twice, 150 and 400 ms of ten seconds; 90 ms is nothing."""
    run = RunRecords(Path("run"), {}, workers=(worker(0, 1, 90, 150, 400, wall_s=10.0),))
    detection = client_stalls(run)

    assert "stood still 2 times, for up to 400 ms" in detection["text"]
    assert detection["share"] == pytest.approx(0.055, rel=0.01)
    assert client_stalls(RunRecords(Path("run"), {}, workers=(worker(0, 1, 90),))) is None
    assert client_stalls(RunRecords(Path("run"), {})) is None


def test_arrivals_that_left_after_their_slot_are_counted_with_those_that_never_left():
    """Ten left 80 ms late, more than the 50 ms between arrivals, and five never."""
    run = open_loop(late_ms=lambda number: 80 if number < 10 else 40, issued=95)
    detection = arrival_slots_missed(run)

    assert "10 of 100 arrivals left after their slot of 50.0 ms, up to 80 ms" in detection["text"]
    assert "5 never left" in detection["text"]
    assert detection["share"] == 0.15
    assert arrival_slots_missed(open_loop(late_ms=lambda number: 49)) is None
    assert arrival_slots_missed(open_loop(late_ms=lambda number: 80 * (number == 3))) is None


def test_a_queue_that_grows_is_told_and_a_steady_one_is_not():
    """Each answer takes 50 ms longer than the one before, as long as arrivals are apart: half the rate is answered."""
    detection = rate_not_achieved(open_loop(takes_ms=lambda number: 200 + 50 * number))

    assert "20.2 requests/s arrived and 10.1 were answered" in detection["text"]
    assert 0.3 < detection["share"] < 0.7
    assert rate_not_achieved(open_loop(takes_ms=lambda number: 1_500)) is None
    assert rate_not_achieved(open_loop(takes_ms=lambda number: 2_000 * number, issued=10)) is None


def test_a_closed_loop_has_no_rate_to_miss():
    run = replace(open_loop(late_ms=lambda number: 500), manifest={"kind": "load", "plan": {}})

    assert detect_in_run(run) == []


def prompts(*waits_ms, tokens=200):
    return [
        replace(
            make_timeline(str(number), sent_ms=0, first_ms=wait_ms),
            usage=Usage(input_tokens=tokens),
        )
        for number, wait_ms in enumerate(waits_ms)
    ]


def test_first_tokens_in_less_than_half_the_calibrated_time_were_cached():
    """120 ms expected: 30 ms is not noise, 70 ms may be, and queues only add."""
    given = {"ttft_curve": {"base_ms": 20.0, "per_token_ms": 0.5}}

    def seen(*waits_ms, manifest=given):
        run = RunRecords(Path("run"), manifest, tuple(prompts(*waits_ms)))
        return prefills_far_too_fast(run)

    assert "2 of 4 first tokens came in 25% (p50)" in seen(30, 30, 120, 900)["text"]
    assert seen(70, 120, 900) is None
    assert seen(30, 30, manifest={}) is None
    assert seen(30, 30, manifest={"ttft_curve": {"slope": 1}}) is None


def test_the_curve_is_the_line_through_the_medians_of_each_length():
    """100 tokens in 60 ms, 300 in 160: 10 ms and half a millisecond a token."""
    cold = prompts(50, 60, 70, tokens=100) + prompts(160, tokens=300)
    curve = fit_ttft_curve(cold)

    assert curve.base_ms == pytest.approx(10)
    assert curve.per_token_ms == pytest.approx(0.5)
    assert curve.at_ms(1_000) == pytest.approx(510)
    assert curve.to_json() == TtftCurve(**curve.to_json()).to_json()
    assert fit_ttft_curve(prompts(60, 61, tokens=100)) is None
    assert fit_ttft_curve(prompts(160, tokens=100) + prompts(60, tokens=300)) is None
