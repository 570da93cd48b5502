"""How well the measuring itself went: lags, CPU, what else the machine did, events per read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.histogram import histogram_of, percentiles
from phasemeter.analysis.records import Lag, RunRecords, WorkerEnd
from phasemeter.analysis.shape import Health, WorkerHealth
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Timeline
from phasemeter.sinks.histogram import decoded, new_histogram

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

WORKER_LAGS = ("loop_lag", "wake_lag", "read_lag", "parse_lag", "send_lag")


def health_of(run: RunRecords) -> Health:
    """Return what a run tells about its own measuring."""
    connection_wait, _ = histogram_of(np.array(connection_waits_ns(run.timelines), dtype=np.int64))
    lags = {name: percentiles(merged_lag(run.workers, name)) for name in WORKER_LAGS}
    return Health(
        workers=[_worker(worker) for worker in run.workers],
        lags={**lags, "connection_wait": percentiles(connection_wait)},
        events_per_read={
            str(size): n for size, n in sorted(events_per_read(run.timelines).items())
        },
        other_load_cores=other_load_cores(run.workers),
        steal_share=max(_told(worker.steal_share for worker in run.workers), default=None),
        governor=_governor(run.manifest),
    )


def merged_lag(workers: Iterable[WorkerEnd], name: str) -> HdrHistogram:
    """Return one histogram of a lag over all workers; a histogram that cannot be read is left out."""
    merged = new_histogram()
    for worker in workers:
        histogram = decoded(worker.histograms.get(name, ""))
        if histogram is None:
            continue
        counts = np.ctypeslib.as_array(histogram.counts)
        for index in np.flatnonzero(counts).tolist():
            merged.record_value(histogram.get_value_from_index(index), int(counts[index]))
    return merged


def connection_waits_ns(timelines: Iterable[Timeline], *, reused: bool = False) -> list[int]:
    """Return how long each request waited until a connection could carry it.

    On a new connection until that was usable. On one that was kept until the request had been sent on
    it: that contains the wait for one to become free in the client's pool.

    Args:
        timelines: The responses.
        reused: Only those on kept connections.
    """
    return [
        (one.sent_ns if one.connected_ns is None else one.connected_ns) - one.started_ns
        for one in timelines
        if one.sent_ns is not None and not (reused and one.connected_ns is not None)
    ]


def read_sizes(timeline: Timeline) -> list[int]:
    """Return how many token events each read brought that brought any."""
    return [len(list(group)) for _, group in groupby(timeline.events, lambda event: event.read)]


def events_per_read(timelines: Iterable[Timeline]) -> Counter[int]:
    """Return how many reads brought so many token events."""
    counts: Counter[int] = Counter()
    for timeline in timelines:
        together = timeline.coalesced_events
        if together:
            counts.update(read_sizes(timeline))
        elif timeline.events:
            counts[1] += len(timeline.events)
    return counts


def other_load_cores(workers: Sequence[WorkerEnd]) -> float | None:
    """Return how many cores others kept busy on average while the workers ran; None if not told."""
    busy_cores = _told(worker.machine_busy_cores for worker in workers)
    own_cores = _told(cpu_share(worker) for worker in workers)
    if not busy_cores or len(own_cores) < len(workers):
        return None
    return max(0.0, round(max(busy_cores) - sum(own_cores), 3))


def cpu_share(worker: WorkerEnd) -> float | None:
    """Return which share of one core a worker used."""
    return _share(worker.cpu_s, worker.wall_s)


def _worker(worker: WorkerEnd) -> WorkerHealth:
    return WorkerHealth(
        worker=worker.worker,
        ended=worker.ended,
        cpu_share=cpu_share(worker),
        cpu_wait_share=_share(worker.cpu_wait_s, worker.wall_s),
        cpus=None if worker.cpus is None else list(worker.cpus),
        loop_lag_p99_ms=_p99_ms(worker.loop_lag_ns),
        wake_lag_p99_ms=_p99_ms(worker.wake_lag_ns),
        read_lag_p99_ms=_p99_ms(worker.read_lag_ns),
        send_lag_p99_ms=_p99_ms(worker.send_lag_ns),
    )


def _share(part_s: float | None, whole_s: float | None) -> float | None:
    return round(part_s / whole_s, 4) if part_s is not None and whole_s else None


def _p99_ms(lag: Lag | None) -> float | None:
    return None if lag is None else lag[1] / NS_PER_MS


def _governor(manifest: Mapping[str, object]) -> str | None:
    host = manifest.get("host")
    governor = host.get("governor") if isinstance(host, Mapping) else None
    return None if governor is None else str(governor)


def _told(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
