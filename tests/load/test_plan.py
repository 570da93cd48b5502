from itertools import islice

import pytest

from phasemeter.load.plan import ArrivalFlow, Plan, TimedFlow, UserFlow, share_of
from phasemeter.load.workload import RequestClass

SHORT, LONG = RequestClass("short", 10, 5, 0.5), RequestClass("long", 100, 5, 0.5)


def make_plan(seed: int = 1) -> Plan:
    flows = (
        ArrivalFlow("a", (SHORT, LONG), 50.0, "poisson", 0.0, 4.0),
        ArrivalFlow("b", (LONG,), 10.0, "constant", 1.0, 3.0, max_requests=5),
        TimedFlow("t", ((0.5, SHORT), (2.5, LONG))),
        UserFlow("u", (SHORT,), 5, 0.0, 4.0, spread_s=1.0),
    )
    return Plan(flows, 4.0, 1.0, seed)


def test_the_arrivals_follow_from_the_plan_and_the_seed():
    assert list(make_plan().arrivals(0, 1)) == list(make_plan().arrivals(0, 1))
    assert list(make_plan(1).arrivals(0, 1)) != list(make_plan(2).arrivals(0, 1))


def test_arrivals_come_ordered_by_their_offset_and_limited():
    requests = list(make_plan().arrivals(0, 1))

    offsets = [request.offset_ns for request in requests]
    assert offsets == sorted(offsets)
    assert sum(request.key.startswith("b-") for request in requests) == 5
    assert [r.offset_ns for r in requests if r.key.startswith("t-")] == [500_000_000, 2_500_000_000]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_the_workers_shares_make_up_the_whole_plan(workers):
    whole = {request.key: request for request in make_plan().arrivals(0, 1)}
    shares = [list(make_plan().arrivals(w, workers)) for w in range(workers)]
    users = [user for w in range(workers) for _, user in make_plan().users(w, workers)]

    assert sum(map(len, shares)) == len(whole)
    assert {request.key: request for share in shares for request in share} == whole
    assert sorted(users) == [0, 1, 2, 3, 4]


def test_a_class_meets_the_same_arrivals_whatever_flows_are_beside_it():
    alone = Plan((make_plan().flows[0],), 4.0, 1.0, 1)

    together = [r for r in make_plan().arrivals(0, 1) if r.key.startswith("a-")]

    assert list(alone.arrivals(0, 1)) == together


def test_users_start_spread_and_draw_their_own_requests():
    flow = make_plan().flows[3]
    assert isinstance(flow, UserFlow)

    first = [request.key for request in islice(flow.requests_of(2, 1), 2)]

    assert first == ["u-u2-0", "u-u2-1"]
    assert [flow.first_offset_ns(user) for user in (0, 1, 4)] == [0, 200_000_000, 800_000_000]


def test_a_limit_is_shared_out_without_loss():
    assert [share_of(10, worker, 3) for worker in range(3)] == [4, 3, 3]
    assert share_of(None, 0, 3) is None


def test_the_manifest_holds_the_whole_plan():
    document = make_plan().as_document()

    kinds = [flow["kind"] for flow in document["flows"]]  # type: ignore[attr-defined]
    assert kinds == ["arrivals", "arrivals", "timed", "users"]
    assert document["seed"] == 1


def test_a_user_may_ask_for_the_classes_in_turn():
    flow = UserFlow("u", (SHORT, LONG), 1, 0.0, 4.0, in_turn=True)

    drawn = [request.request_class for request in islice(flow.requests_of(0, 1), 5)]

    assert drawn == [SHORT, LONG, SHORT, LONG, SHORT]


def test_an_even_mix_has_the_shares_in_every_stretch():
    """Of 20 requests in a row 13 to 15 are of the class with 70 %, for each user from its own place."""
    mix = (RequestClass("most", 1, 1, 0.7), RequestClass("few", 1, 1, 0.3))
    flow = UserFlow("u", mix, 3, 0.0, 1.0, even_mix=True)

    def names(user, seed):
        return [one.request_class.name for one in islice(flow.requests_of(user, seed), 200)]

    for user in range(3):
        drawn = names(user, 1)
        assert all(13 <= drawn[at : at + 20].count("most") <= 15 for at in range(180))
        assert drawn == names(user, 1)
    assert names(0, 1) != names(1, 1)
    assert names(0, 1) != names(0, 2)
