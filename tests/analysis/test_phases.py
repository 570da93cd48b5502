"""Picking gaps out of phases."""

from run_factory import make_timeline, write_run

from phasemeter.analysis.phases import (
    background_gaps_ns,
    injected_topologies,
    is_injected,
    timelines_of,
)
from phasemeter.analysis.records import load_run

MS = 1_000_000


def tags(**more):
    return {"class": "background", "arm": "mixed", "condition": "inject", "repeat": "1"} | more


def mark(phase, start_ms, end_ms, repeat=1, arm="mixed"):
    return {
        "arm": arm,
        "condition": "inject",
        "repeat": repeat,
        "phase": phase,
        "start_ns": start_ms * MS,
        "end_ns": end_ms * MS,
    }


def test_background_gaps_belong_to_the_phase_in_which_they_end(tmp_path):
    """Tokens at 10 20 30 40 90 ms, injection from 35 ms: two gaps before, 10 and 50 during it.

    The injected prompt's own gap and the other repeat's gaps are left out.
    """
    timelines = [
        make_timeline("a", first_ms=10, gaps_ms=(10, 10, 10, 50), tags=tags()),
        make_timeline("b", first_ms=50, gaps_ms=(7,), tags=tags(**{"class": "injected"})),
        make_timeline("c", first_ms=50, gaps_ms=(8,), tags=tags(repeat="2")),
    ]
    marks = [mark("baseline", 0, 35), mark("inject", 35, 100)]

    run = load_run(write_run(tmp_path, timelines, kind="interference", marks=marks))

    assert background_gaps_ns(run, "mixed", "baseline").tolist() == [10 * MS, 10 * MS]
    assert background_gaps_ns(run, "mixed", "inject").tolist() == [10 * MS, 50 * MS]
    assert background_gaps_ns(run, "mixed", "recovery").tolist() == []
    assert [t.request_id for t in timelines_of(run, "mixed", "inject", 1)] == ["a", "b"]
    assert [is_injected(t) for t in timelines_of(run, "mixed", "inject")] == [False, True, False]


def test_topologies_come_in_the_order_of_their_marks(tmp_path):
    """The order in which arms were run first."""
    marks = [mark("inject", 0, 1, arm=arm) for arm in ("separated", "mixed", "separated")]

    run = load_run(write_run(tmp_path, [], kind="interference", marks=marks))

    assert injected_topologies(run) == ["separated", "mixed"]
