"""What the experiment finds in runs whose truth is known."""

from dataclasses import replace

import pytest

from phasemeter.core.timeline import Outcome
from phasemeter.experiments.interference import analyse
from tests.experiments.synthetic import make_run


@pytest.fixture(scope="module")
def finding():
    return analyse(make_run())


def factor(finding, name):
    return next(one for one in finding.factors if one.name == name)


def test_stalls_in_one_topology_only_are_found_and_sized(finding):
    # 4 s of 10 ms gaps alone; under injection a 100 ms stall each 200 ms: 1 gap in 11 is a stall.
    mixed = factor(finding, "mixed.inject.background.gap_p99")
    separated = factor(finding, "separated.inject.background.gap_p99")

    assert mixed.value == pytest.approx(10.0, rel=0.01)
    assert mixed.ci95[0] == pytest.approx(10.0, rel=0.02)
    assert separated.value == pytest.approx(1.0, abs=0.01)
    assert finding.verdict.kind == "interference"


def test_the_topologies_are_compared_in_both_directions(finding):
    prefix = "separated_vs_mixed"

    assert factor(finding, f"{prefix}.inject.background.gap_p99").value == pytest.approx(
        0.1, rel=0.01
    )
    # 150 ms against 50 ms, and 0 to 4 ms of spread: medians 152 and 52.
    assert factor(finding, f"{prefix}.together.short.ttft_p50").value == pytest.approx(152 / 52)
    assert factor(finding, f"{prefix}.together.all.throughput").value == pytest.approx(1, abs=0.05)
    assert "separated was better than mixed in gap p99 of the streams" in finding.verdict.text
    assert "separated was worse than mixed in TTFT p50 of short requests" in finding.verdict.text
    assert (
        "throughput of the mix"
        in finding.verdict.text.rpartition("No clear difference of separated in")[2]
    )


def test_every_topology_and_class_has_the_factors_that_are_promised(finding):
    names = {one.name for one in finding.factors}

    for arm in ("mixed", "separated"):
        assert {f"{arm}.inject.background.{one}" for one in ("gap_p99", "gap_max")} <= names
        for class_name in ("short", "long"):
            for one in ("gap_p99", "gap_max", "ttft_p50", "ttft_p99", "throughput"):
                assert f"{arm}.together.{class_name}.{one}" in names


def test_each_injection_is_shown_with_the_longest_wait_beside_it(finding):
    mixed = [one for one in finding.exposures if one.arm == "mixed"]

    # Two repeats of (4000 - 400) / 200 = 18 injections.
    assert len(mixed) == 36
    assert {one.prompt_tokens for one in mixed} == {512}
    assert all(one.longest_gap_ms == pytest.approx(100) for one in mixed)


def test_the_arms_carry_counts_and_percentiles(finding):
    arms = {arm.name: arm for arm in finding.arms}

    assert list(arms)[:5] == [
        "mixed/baseline",
        "mixed/inject",
        "mixed/short_alone",
        "mixed/long_alone",
        "mixed/together",
    ]
    assert arms["mixed/together"].requests["ok"] == 120
    assert arms["mixed/together"].gpus == 2


def test_a_stream_is_cut_between_the_phases_that_it_lasts_through(finding):
    """Four streams, twice, from baseline into inject: 10 ms gaps in one, stalls in the other."""
    arms = {arm.name: arm for arm in finding.arms}
    alone, beside = (arms[f"mixed/{phase}"].metrics["gap"] for phase in ("baseline", "inject"))

    # 4 s of 10 ms gaps; then a stall of 100 ms each 200 ms, beside gaps of the injected requests
    assert alone["count"] == pytest.approx(2 * 4 * 400, rel=0.01)
    assert alone["max"] == pytest.approx(10, rel=0.01)
    assert beside["max"] == pytest.approx(100, rel=0.01)
    assert arms["mixed/baseline"].classes["background"]["requests"]["issued"] == 0
    assert arms["mixed/baseline"].classes["background"]["metrics"]["ttft"]["count"] == 0
    assert arms["mixed/inject"].classes["injected"]["requests"]["ok"] == 36


def test_tokens_that_nobody_tells_give_no_throughput_factor():
    """An event of unknown size is not one token."""
    run = make_run()
    untold = tuple(
        replace(t, events=tuple(e._replace(tokens=None) for e in t.events)) for t in run.timelines
    )

    finding = analyse(replace(run, timelines=untold))

    assert factor(finding, "separated_vs_mixed.together.all.throughput").value is None
    assert factor(finding, "mixed.inject.background.gap_p99").value is not None


def test_quantiles_near_the_end_of_small_samples_have_no_interval(finding):
    """60 requests a class: a median has one, a 99th percentile and a maximum do not."""
    assert factor(finding, "mixed.together.short.ttft_p50").ci95 is not None
    assert factor(finding, "mixed.together.short.ttft_p99").ci95 is None
    assert factor(finding, "mixed.inject.background.gap_max").ci95 is None


def test_a_prompt_on_another_instance_exposes_nothing():
    """Two replicas: prompts on the second, streams on the first."""
    run = make_run()
    placed = tuple(
        replace(t, tags={**t.tags, "instance": str(int(t.tags["class"] == "injected"))})
        for t in run.timelines
    )

    finding = analyse(replace(run, timelines=placed))

    assert finding.verdict.kind == "invalid"
    assert "Prompts and streams were on different instances" in finding.verdict.text


def test_without_stalls_nothing_is_claimed():
    finding = analyse(make_run(stall_ms={"mixed": 10.0, "separated": 10.0}))

    assert finding.verdict.kind == "none"
    assert "No interference" in finding.verdict.text


def test_without_overlap_nothing_can_be_said():
    finding = analyse(make_run(overlapping=False, stall_ms={"mixed": 10.0, "separated": 10.0}))

    assert finding.verdict.kind == "invalid"
    assert "overlapped a background stream" in finding.verdict.text


def test_a_run_without_injection_is_judged_by_the_short_class():
    """Short requests wait three times as long for their first token beside the long ones."""
    run = make_run()
    mix = tuple(mark for mark in run.marks if mark.condition != "inject")

    finding = analyse(replace(run, marks=mix))

    assert finding.verdict.kind == "none"  # 50 ms on mixed, alone and together
    assert not any(".inject." in one.name for one in finding.factors)
    assert finding.exposures == ()
    slowed = analyse(
        replace(make_run(short_ttft_ms={"mixed": 150.0, "separated": 50.0}), marks=mix)
    )
    assert slowed.verdict.kind == "interference"
    assert "short requests beside the other class had TTFT p50 2.92 times" in slowed.verdict.text


def test_a_run_of_injection_only_is_judged_by_it():
    run = make_run()

    finding = analyse(replace(run, marks=tuple(m for m in run.marks if m.condition == "inject")))

    assert finding.verdict.kind == "interference"
    assert not any(".together." in one.name for one in finding.factors)


def test_each_later_topology_is_compared_with_the_first():
    run = make_run(
        arms=("mixed", "separated", "routed"),
        stall_ms={"mixed": 100.0, "separated": 10.0, "routed": 50.0},
        short_ttft_ms={"mixed": 50.0, "separated": 150.0, "routed": 50.0},
    )

    finding = analyse(run)

    versus = {one.name.split(".")[0] for one in finding.factors if "_vs_" in one.name}
    assert versus == {"separated_vs_mixed", "routed_vs_mixed"}
    name = "inject.background.gap_p99"
    assert factor(finding, f"separated_vs_mixed.{name}").value == pytest.approx(0.1, rel=0.01)
    assert factor(finding, f"routed_vs_mixed.{name}").value == pytest.approx(0.5, rel=0.01)
    for arm in ("separated", "routed"):
        assert f"{arm} was better than mixed in gap p99 of the streams" in finding.verdict.text
        assert f"On {arm}, injecting prompts took" in finding.verdict.text
    assert len({arm.topology for arm in finding.arms}) == 3


def test_unequal_gpu_counts_are_not_compared():
    finding = analyse(make_run(gpus={"mixed": 1, "separated": 2}))

    assert finding.verdict.kind == "invalid"
    assert "unequal GPU counts" in finding.verdict.text


def test_a_run_that_mostly_failed_is_invalid():
    run = make_run()
    failed = tuple(replace(t, outcome=Outcome.ERROR) for t in run.timelines[::2])

    finding = analyse(replace(run, timelines=failed + run.timelines[1::2]))

    assert finding.verdict.kind == "invalid"
    assert "did not end ok" in finding.verdict.text


def test_a_run_cut_off_after_its_first_condition_still_gives_a_finding():
    run = make_run()
    first = run.marks[:2]
    kept = [t for t in run.timelines if t.ended_ns < first[1].end_ns + 10**9]
    cut_off = [replace(t, outcome=Outcome.CANCELLED) for t in run.timelines[len(kept) :][:40]]

    finding = analyse(replace(run, marks=first, timelines=(*kept, *cut_off)))

    assert finding.verdict.kind == "interference"
    assert [arm.name for arm in finding.arms] == ["mixed/baseline", "mixed/inject"]


def test_a_run_cut_off_before_any_condition_was_complete_is_invalid():
    run = make_run()

    finding = analyse(replace(run, marks=(), timelines=(), issued=()))

    assert finding.verdict.kind == "invalid"
    assert finding.factors == ()


def test_classes_that_are_kept_apart_need_no_overlap_on_one_instance():
    """Routed by class, injected prompts never meet the background: no reason against the run."""
    run = make_run(
        arms=("mixed", "class-routed"),
        stall_ms={"mixed": 100.0, "class-routed": 10.0},
        short_ttft_ms={"mixed": 50.0, "class-routed": 50.0},
    )
    elsewhere = tuple(
        replace(t, tags={**t.tags, "instance": "1"})
        if (t.tags["arm"], t.tags["class"]) == ("class-routed", "injected")
        else t
        for t in run.timelines
    )
    routes = {"background": [0], "injected": [1], "short": [0], "long": [1]}
    told = {**run.manifest["target"], "topologies": {"class-routed": {"routes": routes}}}
    apart = replace(run, timelines=elsewhere, manifest={"target": told})

    finding = analyse(apart)

    assert finding.verdict.kind == "interference"
    assert "they shared no instance" in finding.verdict.text
    assert any("to different instances" in note for note in finding.notes)
    # The same records where no route says so: nothing can be said about that topology.
    assert analyse(replace(apart, manifest=run.manifest)).verdict.kind == "invalid"
