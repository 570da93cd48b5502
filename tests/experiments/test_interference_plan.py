from collections import Counter
from dataclasses import replace
from itertools import groupby, islice

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


def test_injections_fall_into_their_phase_and_take_every_length_equally_often():
    run = next(r for r in arm_runs(InterferenceSettings(), ARMS) if r.condition == "inject")
    inject = next(phase for phase in run.phases if phase.name == "inject")
    injections = [r for r in run.plan.arrivals(0, 1) if r.request_class.name == "injected"]

    assert len(injections) == (inject.end_s - inject.start_s) * 2
    assert all(inject.start_s <= r.offset_ns / 1e9 < inject.end_s for r in injections)
    lengths = [r.request_class.prompt_tokens for r in injections]
    assert sorted(lengths[:4]) == sorted(lengths[4:8]) == [512, 1024, 2048, 4096]
    assert lengths[:4] != lengths[4:8]  # in another order
    assert any(isinstance(flow, TimedFlow) for flow in run.plan.flows)


def test_the_grid_is_drawn_balanced_and_in_an_order_of_its_own_each_time():
    """3 numbers of users, each a run; 2 lengths by 2 numbers together are the cells of a run."""
    settings = replace(
        LAB_SETTINGS,
        conditions=("inject",),
        background_users=(1, 4, 8),
        inject_prompt_tokens=(100, 200),
        inject_together=(1, 3),
        injections_per_s=1.0,
        inject_s=6.0,
        repeats=4,
    )
    runs = [run for run in arm_runs(settings, ARMS) if run.condition == "inject"]

    orders = [
        tuple(run.users for run in runs if (run.arm, run.repeat) == ("mixed", repeat))
        for repeat in (1, 2, 3, 4)
    ]
    assert {tuple(sorted(order)) for order in orders} == {(1, 4, 8)}
    assert len(set(orders)) > 1
    for users in (1, 4, 8):
        mine = [run for run in runs if run.users == users]
        flow = next(f for f in mine[0].plan.flows if f.name == "background")
        assert flow.users == users
        assert dict(flow.tags)["users"] == str(users)
        met = {arm: {run.repeat: cells_of(run) for run in mine if run.arm == arm} for arm in ARMS}
        assert met["mixed"] == met["separated"]  # the same injections at the same times
        cells = Counter(cell for run in mine if run.arm == "mixed" for _, cell in cells_of(run))
        # 6 a run of a deck of 4: over 4 repeats each cell comes 6 times
        assert cells == dict.fromkeys([(100, 1), (100, 3), (200, 1), (200, 3)], 6)


def cells_of(run):
    """(time, (length, together)) of each injection, whose prompts are sent at one moment."""
    sent = Counter(
        (r.offset_ns, r.request_class.prompt_tokens, r.tags["together"])
        for r in run.plan.arrivals(0, 1)
    )
    assert all(number == int(together) for (_, _, together), number in sent.items())
    return [(at, (tokens, int(together))) for at, tokens, together in sorted(sent)]


def test_each_prompt_is_sent_alone_equally_often_before_the_background_starts():
    run = next(r for r in arm_runs(LAB_SETTINGS, ARMS) if r.condition == "prompts_alone")

    (flow,) = run.plan.flows
    asked = [r.request_class.prompt_tokens for r in islice(flow.requests_of(0, 1), 6)]
    assert flow.users == 1
    assert flow.max_requests == 6
    assert asked == [192, 320, 448] * 2


def test_the_phases_follow_each_other_without_a_gap():
    run = next(r for r in arm_runs(LAB_SETTINGS, ARMS) if r.condition == "inject")

    assert [p.name for p in run.phases] == ["prime", "baseline", "inject", "recovery"]
    assert all(a.end_s == b.start_s for a, b in zip(run.phases, run.phases[1:], strict=False))
    assert run.plan.duration_s == run.phases[-1].end_s


def test_the_lab_measures_for_about_two_minutes():
    # Prompts alone end when they are answered, in 1 to 2 of their 5 seconds.
    runs = [run for run in arm_runs(LAB_SETTINGS, ARMS) if run.condition != "prompts_alone"]

    assert 90 <= sum(run.plan.duration_s for run in runs) <= 135


def test_only_the_conditions_asked_for_are_run_on_any_number_of_topologies():
    settings = replace(LAB_SETTINGS, conditions=("inject",))

    runs = arm_runs(settings, ("a", "b", "c"))

    assert [(run.arm, run.repeat) for run in runs] == [
        *(("a", 1), ("b", 1), ("c", 1)) * 2,
        *(("c", 2), ("b", 2), ("a", 2)) * 2,
    ]
    assert {run.condition for run in runs} == {"prompts_alone", "inject"}
    mix = arm_runs(replace(settings, conditions=("mix",)), ("a",))
    assert {run.condition for run in mix} == {"short_alone", "long_alone", "together"}
