"""What is worked out of injections, against simulated engines whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.interval_coverage import coverages
from benchmarks.simulated_engine import Engine, simulate
from phasemeter.analysis.injection import spread_of, stalls_of
from phasemeter.core.clock import NS_PER_MS
from phasemeter.experiments.interference import analyse
from tests.experiments.synthetic import make_run

EXACT = Engine(drift=0.0, hiccup_rate=0.0)


@pytest.fixture(scope="module")
def effect():
    """Steps of exactly 10 ms; prompts of 256 and 512 tokens add 51.2 and 102.4 ms."""
    (found,) = analyse(simulate(EXACT, 1)).effects
    return found


def test_the_cost_of_a_prompt_token_is_found_exactly(effect):
    assert effect.lost_ms_per_prompt_token.value == pytest.approx(0.2, rel=1e-3)
    assert effect.lost_from == "slope"


def test_equal_prompts_give_the_cost_as_a_ratio():
    (effect,) = analyse(simulate(EXACT, 1, prompt_tokens=(512,))).effects

    assert effect.lost_ms_per_prompt_token.value == pytest.approx(0.2, rel=1e-3)
    assert effect.lost_from == "ratio"


def test_a_cell_compares_its_longest_gaps_with_undisturbed_time():
    cells = {one.prompt_tokens: one for one in analyse(simulate(EXACT, 1)).cells}

    assert list(cells) == [256, 512]
    assert cells[256].longest_gap_p50_ms == pytest.approx(61.2, rel=1e-3)
    assert cells[512].longest_gap_factor.value == pytest.approx(11.24, rel=1e-3)
    for cell in cells.values():
        assert (cell.injections, cell.overlapped, cell.users, cell.together) == (12, 12, 4, 1)
        assert cell.baseline_gap_ms.p99 == pytest.approx(10, rel=0.01)
        assert cell.recovery_gap_ms.p50 == pytest.approx(10, rel=0.01)
        assert cell.ttft_alone_p50_ms is None  # no prompts were sent alone
        assert cell.ttft_factor.value is None


def test_overlap_and_decoding_are_told(effect):
    assert (effect.injected, effect.injections, effect.overlapped) == (24, 24, 24)
    assert effect.decoding["baseline"] == pytest.approx(4, abs=0.2)
    assert effect.most_streams in (5, 6)
    assert 0 < effect.exposed_share < 0.2


def test_lost_time_stalls_and_deadlines(effect):
    """12 s under injection, of which prompts took 12 x 51.2 + 12 x 102.4 = 1843 ms."""
    assert effect.lost_share.value == pytest.approx(1.8432 / 12, abs=0.01)
    assert effect.stalls["inject"].length_ms.count == pytest.approx(24 * 4, abs=8)
    assert effect.stalls["inject"].length_ms.max == pytest.approx(112.4, rel=1e-3)
    assert effect.stalls["baseline"].length_ms.count == 0
    assert effect.gap_deadline_ms == pytest.approx(20, rel=0.01)
    # Ten tokens on time give the slack that a stall of 10 steps takes.
    assert effect.deadlines_missed["baseline"] == 0
    assert effect.deadlines_missed["inject"] < 0.05


def test_the_next_step_is_within_the_band_again(effect):
    recovery = effect.recovery

    assert recovery.band_ms == pytest.approx(15, rel=0.01)
    assert (recovery.followed, recovery.not_recovered) == (24, 0)
    assert recovery.steps_max == 0
    assert recovery.ms_max < 1


def test_streams_that_stay_slow_are_seen_to_recover_late():
    """After each stall, which ends 15 ms after the first token, three more gaps of 40 ms."""
    run = make_run(slow_after=3, stall_every_ms=400.0)
    effect = next(one for one in analyse(run).effects if one.arm == "mixed")

    assert effect.recovery.steps_p50 == 3
    assert effect.recovery.ms_p50 == pytest.approx(15 + 3 * 40, abs=12)


def test_prompts_alone_are_what_injected_ones_are_compared_with():
    run = make_run(alone_ttft_ms=30.0)
    cell = next(one for one in analyse(run).cells if one.arm == "mixed")

    assert cell.ttft_p50_ms == pytest.approx(90)
    assert cell.ttft_alone_p50_ms == pytest.approx(30)
    assert cell.ttft_factor.value == pytest.approx(3)


def test_prompts_sent_together_are_one_injection():
    """Two prompts at each moment: one exposure, the tokens of both."""
    run = simulate(EXACT, 1, prompt_tokens=(256,))
    twins = tuple(
        replace(one, request_id=f"twin-{one.request_id}", tags={**one.tags, "together": "2"})
        for one in run.timelines
        if one.tags["class"] == "injected"
    )
    kept = tuple(
        replace(one, tags={**one.tags, "together": "2"}) if one.tags["class"] == "injected" else one
        for one in run.timelines
    )

    found = analyse(replace(run, timelines=kept + twins))

    assert [(cell.together, cell.injections) for cell in found.cells] == [(2, 24)]
    assert {one.together for one in found.exposures} == {2}
    assert found.effects[0].injected == 48
    assert found.effects[0].lost_ms_per_prompt_token.value == pytest.approx(0.1, rel=1e-3)


def test_injections_that_overlap_each_other_are_resampled_as_one():
    """At 20 injections a second everything hangs together: there is no interval."""
    run = simulate(EXACT, 1, injections_per_s=20.0, inject_s=2.0, repeats=1)

    found = analyse(run)

    assert found.effects[0].overlapped > 20
    factor = next(one for one in found.factors if one.name.endswith("longest_exposed_gap"))
    assert factor.value > 1
    assert factor.ci95 is None
    assert found.verdict.kind == "invalid"
    assert "ran into each other and count as" in found.verdict.text


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Correlated gaps with drift and hiccups; 95 % of 40 is 38, fewer than 34 come by chance in 0.3 %."""
    for name, one in coverages(Engine(drift=0.2, memory=0.95, hiccup_rate=0.005), 40).items():
        assert one.given == 40, name
        assert one.held >= 34, (name, one)


def test_spreads_and_curves_of_lengths():
    lengths = np.arange(1, 1_001) * NS_PER_MS

    spread = spread_of(lengths)
    stalls = stalls_of(lengths, 2_000)

    assert (spread.count, spread.p50, spread.p99, spread.max) == (1_000, 500, 990, 1_000)
    assert stalls.share_of_gaps == 0.5
    assert len(stalls.curve_ms) == 100
    assert stalls.curve_ms[0] == 10
    assert stalls.curve_ms[-1] == 1_000
    assert spread_of(lengths[:0]).p50 is None
    assert stalls_of(lengths[:0], 0).share_of_gaps is None
