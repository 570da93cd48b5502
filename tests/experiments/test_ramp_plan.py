"""The runs of a ramp: levels, their order, their turns, who asks for what."""

from dataclasses import replace

from phasemeter.experiments.interference_plan import arm_runs
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.experiments.ramp_plan import condition_of, users_of
from phasemeter.load.workload import RequestClass

ARMS = ("mixed", "separated")
SETTINGS = InterferenceSettings(conditions=("ramp",), repeats=4)


def levels(runs, repeat, arm="mixed"):
    return [users_of(run.condition) for run in runs if (run.repeat, run.arm) == (repeat, arm)]


def test_levels_come_in_a_drawn_order_that_all_topologies_share():
    runs = arm_runs(SETTINGS, ARMS)

    orders = [levels(runs, repeat) for repeat in (1, 2, 3, 4)]
    assert all(sorted(order) == [1, 2, 4, 8, 16, 32] for order in orders)
    assert len(set(map(tuple, orders))) > 1
    assert levels(runs, 1, "separated") == orders[0]
    assert levels(arm_runs(replace(SETTINGS, seed=2), ARMS), 1) != orders[0]
    assert levels(arm_runs(SETTINGS, ARMS), 1) == orders[0]


def test_topologies_take_turns_at_each_level_and_swap_places_each_time_round():
    runs = arm_runs(SETTINGS, ARMS)

    assert [run.arm for run in runs if run.repeat == 1] == ["mixed", "separated"] * 6
    assert [run.arm for run in runs if run.repeat == 2] == ["separated", "mixed"] * 6


def test_a_level_has_its_users_and_a_warm_up_that_is_not_measured():
    run = next(r for r in arm_runs(SETTINGS, ARMS) if r.condition == condition_of(16))

    assert [(phase.name, phase.start_s, phase.end_s) for phase in run.phases] == [
        ("prime", 0, 3),
        ("measure", 3, 18),
    ]
    users = run.plan.users(0, 1)
    assert len(users) == 16
    assert max(flow.first_offset_ns(user) for flow, user in users) < 3e9
    assert {one.name for one in run.plan.classes()} == {"short", "long"}


def test_the_users_of_a_ramp_may_ask_for_something_else_than_the_mix():
    only = (RequestClass("long", 3000, 100),)

    runs = arm_runs(replace(SETTINGS, ramp_mix=only), ARMS)

    assert all(run.plan.classes() == set(only) for run in runs)


def test_a_ramp_is_run_when_it_is_asked_for():
    assert not [r for r in arm_runs(InterferenceSettings(), ARMS) if users_of(r.condition)]
    assert users_of("together") is None
    assert users_of("ramp_uno") is None
