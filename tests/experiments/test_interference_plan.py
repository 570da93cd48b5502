from dataclasses import replace
from itertools import groupby

from phasemeter.experiments.interference_plan import arm_runs
from phasemeter.experiments.interference_settings import LAB_SETTINGS, InterferenceSettings
from phasemeter.load.plan import TimedFlow

ARMS = ("mixed", "separated")


def starts(run, name):
    return [r.offset_ns for r in run.plan.arrivals(0, 1) if r.request_class.name == name]


def test_topologies_take_turns_and_swap_places_each_time_round():
    runs = arm_runs(LAB_SETTINGS, ARMS)

    injects = [(run.arm, run.repeat) for run in runs if run.condition == "inject"]
    assert injects == [("mixed", 1), ("separated", 1), ("separated", 2), ("mixed", 2)]
    for _, group in groupby(runs, key=lambda run: (run.repeat, run.condition)):
        assert len(list(group)) == 2


def test_a_class_meets_the_same_arrivals_alone_and_together_on_every_topology():
    runs = [run for run in arm_runs(LAB_SETTINGS, ARMS) if run.repeat == 1]
    schedules = {(r.arm, r.condition): starts(r, "short") for r in runs if r.condition != "inject"}

    alone = schedules["mixed", "short_alone"]
    assert len(alone) > 3
    assert schedules["mixed", "together"] == schedules["separated", "together"] == alone
    assert schedules["mixed", "long_alone"] == []


def test_repeats_and_seeds_draw_other_arrivals():
    first, *_ = (r for r in arm_runs(LAB_SETTINGS, ARMS) if r.condition == "together")
    second = next(
        r for r in arm_runs(LAB_SETTINGS, ARMS) if (r.condition, r.repeat) == ("together", 2)
    )

    assert starts(first, "short") != starts(second, "short")


def test_injections_fall_into_their_phase_and_take_the_lengths_in_turn():
    run = next(r for r in arm_runs(InterferenceSettings(), ARMS) if r.condition == "inject")
    inject = next(phase for phase in run.phases if phase.name == "inject")
    injections = [r for r in run.plan.arrivals(0, 1) if r.request_class.name == "injected"]

    assert len(injections) == (inject.end_s - inject.start_s) * 2
    assert all(inject.start_s <= r.offset_ns / 1e9 < inject.end_s for r in injections)
    lengths = [r.request_class.prompt_tokens for r in injections]
    assert lengths[:5] == [512, 1024, 2048, 4096, 512]
    assert any(isinstance(flow, TimedFlow) for flow in run.plan.flows)


def test_the_phases_follow_each_other_without_a_gap():
    run = next(r for r in arm_runs(LAB_SETTINGS, ARMS) if r.condition == "inject")

    assert [p.name for p in run.phases] == ["prime", "baseline", "inject", "recovery"]
    assert all(a.end_s == b.start_s for a, b in zip(run.phases, run.phases[1:], strict=False))
    assert run.plan.duration_s == run.phases[-1].end_s


def test_the_lab_measures_for_about_two_minutes():
    runs = arm_runs(LAB_SETTINGS, ARMS)

    assert 90 <= sum(run.plan.duration_s for run in runs) <= 135


def test_only_the_conditions_asked_for_are_run_on_any_number_of_topologies():
    settings = replace(LAB_SETTINGS, conditions=("inject",))

    runs = arm_runs(settings, ("a", "b", "c"))

    assert [(run.arm, run.repeat) for run in runs] == [
        *(("a", 1), ("b", 1), ("c", 1)),
        *(("c", 2), ("b", 2), ("a", 2)),
    ]
    assert {run.condition for run in runs} == {"inject"}
    mix = arm_runs(replace(settings, conditions=("mix",)), ("a",))
    assert {run.condition for run in mix} == {"short_alone", "long_alone", "together"}
