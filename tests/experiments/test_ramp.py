"""What the experiment finds in ramps whose truth is known."""

import json
from dataclasses import replace

import pytest

from phasemeter.analysis.ramp_levels import by_topology, peak_of
from phasemeter.core.timeline import Outcome
from phasemeter.experiments.interference import analyse
from tests.experiments.ramp_factory import TOKENS, make_ramp
from tests.experiments.synthetic import make_run


@pytest.fixture(scope="module")
def finding():
    return analyse(make_ramp(arms=("mixed", "separated")))


def factor(finding, name):
    return next(one for one in finding.factors if one.name == name)


def level(finding, topology, users):
    return next(one for one in finding.ramp if (one.topology, one.users) == (topology, users))


def test_each_level_has_its_percentiles_without_the_warm_up(finding):
    """TTFT is 50 ms a user and up to 4 ms more; in the warm-up it is twice that."""
    for users in (1, 2, 4, 8):
        short = level(finding, "mixed", users).classes["short"]
        assert short.ttft_ms["p50"].value == pytest.approx(50 * users, abs=5)
        assert short.ttft_ms["p99"].value == pytest.approx(50 * users, abs=5)
        assert short.gap_ms["p99"].value == pytest.approx(10, abs=0.1)
        lo, hi = short.ttft_ms["p50"].ci95
        assert lo <= short.ttft_ms["p50"].value <= hi


def test_throughput_is_tokens_over_measured_time_and_divided_by_gpus(finding):
    one = level(finding, "mixed", 4)
    # a request of 10 tokens lasts 200 ms of TTFT, 90 ms of gaps and about 3 ms: four users at a time
    expected = 4 * TOKENS / 0.293

    assert one.output_tokens_per_s.value == pytest.approx(expected, rel=0.03)
    assert one.output_tokens_per_s_per_gpu.value == pytest.approx(expected / 2, rel=0.03)
    assert one.output_tokens_per_s.ci95[0] < expected < one.output_tokens_per_s.ci95[1]
    assert one.requests_per_s == pytest.approx(expected / TOKENS, rel=0.05)
    assert one.issued == one.ok > 100


def test_levels_are_compared_with_the_fewest_users(finding):
    pooled = factor(finding, "mixed.ramp.u8_vs_u1.ttft_p50")
    by_class = factor(finding, "mixed.ramp.u8_vs_u1.short.ttft_p50")

    assert pooled.value == pytest.approx(400 / 52, rel=0.03)
    assert by_class.value == pytest.approx(400 / 52, rel=0.03)
    assert by_class.ci95[0] <= by_class.value <= by_class.ci95[1] < 8
    assert factor(finding, "mixed.ramp.u8_vs_u1.gap_p99").value == pytest.approx(1, abs=0.01)
    assert factor(finding, "mixed.ramp.u8_vs_u1.throughput").value == pytest.approx(
        8 * 142 / 493, rel=0.1
    )


def test_topologies_are_compared_level_by_level(finding):
    for users in (1, 8):
        one = factor(finding, f"separated_vs_mixed.ramp.u{users}.short.ttft_p50")
        assert one.value == pytest.approx(2, rel=0.05)
    assert factor(finding, "separated_vs_mixed.ramp.u8.throughput").value < 1
    assert "separated was worse than mixed in TTFT p50 of short requests at 8 users" in (
        finding.verdict.text
    )


def test_the_verdict_tells_both_ends_and_the_peak(finding):
    text = finding.verdict.text

    assert finding.verdict.kind == "interference"  # 7.7 times the TTFT
    assert "On mixed, 8 users instead of 1 user took the TTFT p50 of short requests from 51" in text
    assert "Throughput on mixed was highest with 8 users" in text
    assert any("slow each other both by decoding" in note for note in finding.notes)


def test_the_articles_claim_would_be_seen():
    """TTFT from under 1 s to over 10 s, and half the throughput at the most users."""
    run = make_ramp(
        levels=(1, 8, 32),
        ttft_ms={1: 500.0, 8: 900.0, 32: 10_400.0},
        warming=0.3,
    )

    finding = analyse(run)

    claim = factor(finding, "mixed.ramp.u32_vs_u1.short.ttft_p50")
    assert claim.value > 20
    assert level(finding, "mixed", 32).classes["short"].ttft_ms["p50"].value > 10_000
    lost = factor(finding, "mixed.ramp.u32_vs_u8.throughput")
    assert lost.value < 0.5
    assert lost.ci95[1] < 0.6
    assert "Throughput on mixed was highest with 8 users" in finding.verdict.text
    assert "with 32 users it was" in finding.verdict.text


def test_without_an_effect_none_is_claimed():
    finding = analyse(make_ramp(ttft_ms=dict.fromkeys((1, 2, 4, 8), 50.0)))

    assert finding.verdict.kind == "none"


def test_requests_that_failed_are_counted_and_noted():
    run = make_ramp()
    lost = {one.request_id for one in run.timelines if one.tags["condition"] == "ramp_u8"}
    few = set(sorted(lost)[::20])
    timelines = tuple(
        replace(one, outcome=Outcome.ERROR) if one.request_id in few else one
        for one in run.timelines
    )

    finding = analyse(replace(run, timelines=timelines))

    one = level(finding, "mixed", 8)
    assert one.ok < one.issued
    assert any("Not every request ended ok: mixed at 8 users" in note for note in finding.notes)


def test_a_level_that_had_too_little_time_to_settle_is_named():
    """5 s of warm-up and requests of up to half a second but at one level."""
    finding = analyse(make_ramp(ttft_ms={8: 6_000.0}))

    restless = next(note for note in finding.notes if "may not have settled" in note)
    assert restless.endswith("measured: mixed at 8 users.")
    assert not any("settled" in note for note in analyse(make_ramp(prime_s=None)).notes)


def test_few_requests_have_no_interval():
    """One user, TTFT of 4 s: a handful of requests over two repeats."""
    finding = analyse(make_ramp(levels=(1, 2), ttft_ms={1: 4_000.0, 2: 4_000.0}))

    one = level(finding, "mixed", 1).classes["short"]
    assert 1 <= one.requests < 20
    assert one.ttft_ms["p50"].value == pytest.approx(4_000, abs=5)
    assert one.ttft_ms["p50"].ci95 is None
    assert factor(finding, "mixed.ramp.u2_vs_u1.short.ttft_p50").ci95 is None
    assert finding.verdict.kind == "invalid"
    assert "too few requests for an interval" in finding.verdict.text


def test_untold_tokens_and_gpus_stay_unknown():
    run = make_ramp(gpus=None)
    untold = tuple(
        replace(t, events=tuple(e._replace(tokens=None) for e in t.events)) for t in run.timelines
    )

    finding = analyse(replace(run, timelines=untold))

    one = level(finding, "mixed", 4)
    assert one.output_tokens_per_s.value is None
    assert one.output_tokens_per_s_per_gpu.value is None
    assert peak_of(by_topology(finding.ramp)["mixed"]) is None
    assert factor(finding, "mixed.ramp.u8_vs_u1.throughput").value is None
    assert analyse(run).ramp[0].output_tokens_per_s_per_gpu.value is None


def test_a_ramp_cut_off_after_one_level_is_told_and_not_judged():
    run = make_ramp()

    finding = analyse(replace(run, marks=run.marks[:2]))

    assert [one.users for one in finding.ramp] == [1]
    assert finding.verdict.kind == "invalid"


def test_a_ramp_leaves_the_verdict_on_injection_alone():
    run, ramp = make_run(), make_ramp(arms=("mixed", "separated"))
    both = replace(
        run,
        timelines=run.timelines + ramp.timelines,
        issued=run.issued + ramp.issued,
        marks=run.marks + ramp.marks,
    )
    without = replace(run, manifest=both.manifest)

    finding = analyse(both)

    shared = {one.name: one for one in finding.factors if ".ramp." not in one.name}
    assert shared == {one.name: one for one in analyse(without).factors}
    assert finding.verdict.text.startswith("Interference was shown on mixed. On mixed, injecting")
    assert "8 users instead of 1 user" in finding.verdict.text
    names = [arm.name for arm in finding.arms]
    assert names.index("mixed/ramp_u1") > names.index("separated/together")
    assert {arm.users for arm in finding.arms} == {None, 1, 2, 4, 8}


def test_the_json_has_levels_by_topology(finding):
    document = json.loads(json.dumps(finding.to_json()))["ramp"]

    assert list(document) == ["mixed", "separated"]
    assert document["mixed"]["peak_users"] == 8
    levels = document["mixed"]["levels"]
    assert [one["users"] for one in levels] == [1, 2, 4, 8]
    assert list(levels[0]["classes"]) == ["short", "long", "all"]
    assert set(levels[0]["classes"]["long"]["ttft_ms"]) == {"p50", "p90", "p99"}
    assert set(levels[0]["classes"]["long"]["gap_ms"]) == {"p50", "p99"}
    assert set(levels[0]["output_tokens_per_s"]) == {"value", "ci95"}
