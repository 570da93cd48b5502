"""Each rule alone: silent when all is well, with figures when it is not."""

from dataclasses import replace

import pytest

from phasemeter.analysis.records import WorkerEnd
from phasemeter.analysis.shape import RequestCounts
from phasemeter.analysis.validity import Evidence, judge

RECV = frozenset({"recv"})
COUNTS = RequestCounts(
    issued=10, ok=10, error=0, truncated=0, empty=0, cancelled=0, abandoned=0, in_flight=0
)
HEALTHY = Evidence(
    requests=COUNTS,
    record_count=10,
    token_events=1010,
    streams_with_tokens=10,
    stamp_sources=frozenset({"kernel"}),
    workers=(WorkerEnd(0, "done", loop_lag_ns=(1e5, 1e6, 2e6), send_lag_ns=(1e5, 1e6, 2e6)),),
    record_files=1,
)


def lagging(p99_ms):
    return (WorkerEnd(0, "done", loop_lag_ns=(0, p99_ms * 1e6, 1e9)),)


def waking_late(p99_ms):
    return (WorkerEnd(0, "done", wake_lag_ns=(0, p99_ms * 1e6, 1e9)),)


def reading_late(p99_ms):
    """What the kernel tells of reads is better evidence than the loop's own lag."""
    lag_ns = (0, p99_ms * 1e6, 1e9)
    return (WorkerEnd(0, "done", read_lag_ns=lag_ns, loop_lag_ns=(0, 0, 0), wake_lag_ns=(0, 0, 0)),)


def sending_late(p99_ms):
    return WorkerEnd(0, "done", send_lag_ns=(0, p99_ms * 1e6, 1e9))


def test_a_healthy_run_is_valid_without_reasons():
    """No rule speaks."""
    assert judge(HEALTHY) == {"verdict": "valid", "reasons": []}


@pytest.mark.parametrize(
    ("changes", "verdict", "told"),
    [
        ({"record_count": 9}, "invalid", "10 requests issued but 9"),
        ({"requests": COUNTS | {"ok": 0, "error": 10}}, "invalid", "no request ended ok"),
        ({"unreadable_lines": 3}, "suspect", "3 record lines"),
        ({"clock_steps": 2}, "suspect", "moved during 2 responses"),
        ({"coalesced_events": 51}, "suspect", "5.1% of the gaps"),
        ({"workers": (sending_late(51),)}, "suspect", "51 ms late"),
        ({"workers": (WorkerEnd(0, "interrupted"),)}, "suspect", "1 of 1 load workers were"),
        ({"record_files": 2}, "suspect", "1 of 2 load workers"),
        ({"stamp_sources": frozenset({"recv"}), "workers": lagging(6)}, "suspect", "6.0 ms"),
        ({"stamp_sources": frozenset({"recv"}), "workers": lagging(51)}, "invalid", "51.0 ms"),
        (
            {"stamp_sources": RECV, "workers": lagging(1.5), "median_gap_ms": 20.0},
            "suspect",
            "up to 1.5 ms late (p99), beside gaps of 20.0 ms",
        ),
        (
            {"stamp_sources": RECV, "workers": lagging(2.5), "median_gap_ms": 20.0},
            "invalid",
            "up to 2.5 ms late (p99)",
        ),
        (
            {"stamp_sources": RECV, "workers": reading_late(6), "median_gap_ms": 50.0},
            "invalid",
            "up to 6.0 ms late (p99)",
        ),
        ({"stamp_sources": RECV, "workers": waking_late(6)}, "suspect", "up to 6.0 ms late"),
        ({"connection_wait_ms": 51.0}, "suspect", "waited up to 51 ms (p99) in the client"),
        ({"workers": (WorkerEnd(0, "done", cpu_s=9.5, wall_s=10),)}, "suspect", "95% of a core"),
        ({"workers": (WorkerEnd(0, "done", steal_share=0.06),)}, "suspect", "took 6.0%"),
    ],
)
def test_a_rule_speaks_with_figures(changes, verdict, told):
    """One fault, one reason."""
    validity = judge(replace(HEALTHY, **changes))

    assert validity["verdict"] == verdict
    assert len(validity["reasons"]) == 1
    assert told in validity["reasons"][0]


@pytest.mark.parametrize(
    "changes",
    [
        {"coalesced_events": 50},
        {"workers": (sending_late(49),)},
        {"workers": (WorkerEnd(0, "done"),)},
        {"workers": lagging(500)},
        {"stamp_sources": frozenset({"recv"}), "workers": lagging(5)},
        {"stamp_sources": frozenset({"recv"}), "workers": (WorkerEnd(0, "done"),)},
        {"stamp_sources": RECV, "workers": lagging(1), "median_gap_ms": 5.0},
        {"stamp_sources": RECV, "workers": lagging(5), "median_gap_ms": 100.0},
        {"stamp_sources": frozenset({"kernel"}), "workers": reading_late(60), "median_gap_ms": 5.0},
        {"connection_wait_ms": 50.0},
        {"workers": (WorkerEnd(0, "done", cpu_s=9.0, wall_s=10),)},
        {"workers": (WorkerEnd(0, "done", steal_share=0.05),)},
    ],
)
def test_a_rule_is_silent_at_its_limit_and_where_it_does_not_apply(changes):
    """Kernel stamps do not care for the lag of the loop."""
    assert judge(replace(HEALTHY, **changes))["verdict"] == "valid"


def test_reasons_that_invalidate_come_first():
    """The reader sees the worst first."""
    validity = judge(replace(HEALTHY, clock_steps=1, unreadable_lines=1, record_count=9))

    assert validity["verdict"] == "invalid"
    assert "issued" in validity["reasons"][0]
    assert len(validity["reasons"]) == 3
