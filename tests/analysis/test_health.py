"""What a run tells about its own measuring, over workers and from its records."""

from dataclasses import replace
from pathlib import Path

import pytest
from run_factory import MS, make_timeline

from phasemeter.analysis.health import (
    connection_waits_ns,
    events_per_read,
    health_of,
    merged_lag,
    other_load_cores,
)
from phasemeter.analysis.records import RunRecords, WorkerEnd
from phasemeter.load.health import Lags


def encoded(*times_ms):
    lags = Lags()
    for t_ms in times_ms:
        lags.add(round(t_ms * MS))
    return lags.encoded()


def worker(number, *wake_ms, **fields):
    return WorkerEnd(number, "done", histograms={"wake_lag": encoded(*wake_ms)}, **fields)


def test_the_lags_of_several_workers_are_merged_without_loss():
    merged = merged_lag([worker(0, 1, 2), worker(1, 30), WorkerEnd(2, "done")], "wake_lag")

    assert merged.get_total_count() == 3
    assert merged.get_max_value() == pytest.approx(30_000, rel=1e-3)


def test_events_per_read_count_reads_by_what_they_brought():
    """One stream of single events, one whose five events came in reads of 2, 1 and 2."""
    single = make_timeline("a", first_ms=1, gaps_ms=(1, 1))
    clumped = make_timeline("b", first_ms=1, gaps_ms=(0, 1, 1, 0), coalesced=(1, 4))

    assert events_per_read([single, clumped]) == {1: 4, 2: 2}


def test_a_request_waits_for_a_connection_until_it_can_be_sent():
    """5 ms to connect; 80 ms until a kept connection was free; unknown where nobody saw it sent."""
    fresh = replace(make_timeline("a", sent_ms=6), connected_ns=5 * MS)
    kept = make_timeline("b", sent_ms=80)
    unknown = replace(make_timeline("c"), sent_ns=None)

    assert connection_waits_ns([fresh, kept, unknown]) == [5 * MS, 80 * MS]
    assert connection_waits_ns([fresh, kept, unknown], reused=True) == [80 * MS]


def test_what_others_used_is_the_machines_work_less_the_workers():
    """Three cores at work, of which two workers used 0.5 and 0.25."""
    workers = [
        WorkerEnd(0, "done", cpu_s=5, wall_s=10, machine_busy_cores=3.0),
        WorkerEnd(1, "done", cpu_s=2.5, wall_s=10, machine_busy_cores=2.9),
    ]

    assert other_load_cores(workers) == 2.25
    assert other_load_cores([WorkerEnd(0, "done")]) is None
    assert other_load_cores([]) is None


def test_the_document_names_what_is_known_and_leaves_the_rest_unknown():
    lagging = worker(
        0, 1, cpu_s=1.0, wall_s=4.0, cpu_wait_s=0.5, steal_share=0.01, read_lag_ns=(1e5, 2e6, 3e6)
    )
    run = RunRecords(
        Path("run"), {"host": {"governor": "performance"}}, workers=(lagging, WorkerEnd(1, "done"))
    )
    health = health_of(run)
    first, second = health["workers"]

    assert (first["cpu_share"], first["cpu_wait_share"], first["read_lag_p99_ms"]) == (
        0.25,
        0.125,
        2,
    )
    assert (second["cpu_share"], second["read_lag_p99_ms"]) == (None, None)
    assert health["governor"] == "performance"
    assert health["steal_share"] == 0.01
    assert health["lags"]["wake_lag"]["count"] == 1
    assert health["lags"]["read_lag"]["p99"] is None
    assert health["events_per_read"] == {}
