"""The summary of a run or of any group of its requests: counts, percentiles, rates, validity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.calibration import Calibration, calibration_from, calibration_of
from phasemeter.analysis.detectors import detect
from phasemeter.analysis.engine_steps import EngineSteps, steps_of
from phasemeter.analysis.health import connection_waits_ns, health_of
from phasemeter.analysis.histogram import histogram_of, percentiles
from phasemeter.analysis.queue_estimate import queue_bounds, summarise_queues
from phasemeter.analysis.records import RunRecords
from phasemeter.analysis.run_detectors import detect_in_run
from phasemeter.analysis.samples import Samples, by_class, class_of, collect, pooled
from phasemeter.analysis.server_metrics import server_figures
from phasemeter.analysis.shape import (
    ClassSummary,
    GroupSummary,
    Percentiles,
    QueueSummary,
    RequestCounts,
    ServerFigures,
    Summary,
)
from phasemeter.analysis.throughput import throughput
from phasemeter.analysis.validity import Evidence, judge
from phasemeter.core.record import Issued
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.metrics import BUILTIN

if TYPE_CHECKING:
    import numpy.typing as npt


def summarise(
    run: RunRecords,
    samples: Mapping[str, Samples] | None = None,
    steps: Sequence[EngineSteps] | None = None,
) -> Summary:
    """Return the document of `phasemeter report --json`.

    Args:
        run: The run as read from its folder.
        samples: `collect(run.timelines)` where the caller has it already.
        steps: `steps_of(run)` where the caller has it already.
    """
    group = summarise_group(run.timelines, run.issued, samples)
    steps = steps_of(run) if steps is None else steps
    is_calibration = run.manifest.get("kind") == "calibrate"
    given = calibration_of(run.manifest)
    calibration = calibration_from(run, steps) if is_calibration else given
    sources = frozenset(timeline.stamp_source for timeline in run.timelines)
    server = server_figures(run.server)
    return Summary(
        **group,
        throughput=throughput(run.timelines),
        stamp_source=_one_source(sources),
        detections=[*detect(run.timelines), *detect_in_run(run)],
        validity=judge(_evidence(run, group, sources, server)),
        health=health_of(run),
        steps=[one.to_json() for one in steps],
        calibration=None if calibration is None else calibration.to_json(),
        queue_estimate=None if calibration is None else _queues(steps, calibration),
        server=server,
    )


def _queues(steps: Sequence[EngineSteps], calibration: Calibration) -> QueueSummary | None:
    bounds = queue_bounds(steps, calibration)
    return summarise_queues(bounds) if bounds else None


def summarise_group(
    timelines: Sequence[Timeline],
    issued: Sequence[Issued],
    samples: Mapping[str, Samples] | None = None,
) -> GroupSummary:
    """Return counts and percentiles of a group of requests; latencies over outcome ok only.

    Args:
        timelines: The group's responses that ended.
        issued: The group's requests that were started.
        samples: `collect(timelines)` where the caller has it already.
    """
    samples = collect(timelines) if samples is None else samples
    timelines_by_class = by_class(timelines)
    issued_by_class: dict[str, list[Issued]] = {}
    for request in issued:
        issued_by_class.setdefault(class_of(request.tags), []).append(request)
    names = sorted(timelines_by_class.keys() | issued_by_class.keys())
    return GroupSummary(
        requests=count_requests(timelines, issued),
        metrics=_metrics({metric.name: pooled(samples, metric.name) for metric in BUILTIN}),
        classes={
            name: ClassSummary(
                requests=count_requests(
                    timelines_by_class.get(name, ()), issued_by_class.get(name, ())
                ),
                metrics=_metrics(samples.get(name, {})),
            )
            for name in names
        },
        coalesced_events=sum(timeline.coalesced_events for timeline in timelines),
        errors=dict(Counter(t.error_type for t in timelines if t.error_type).most_common()),
    )


def count_requests(timelines: Iterable[Timeline], issued: Iterable[Issued]) -> RequestCounts:
    """Count requests by outcome; in flight are those issued without a record."""
    outcomes: Counter[Outcome] = Counter()
    ended: set[str] = set()
    for timeline in timelines:
        outcomes[timeline.outcome] += 1
        ended.add(timeline.request_id)
    started = [request.request_id for request in issued]
    return RequestCounts(
        issued=len(started),
        ok=outcomes[Outcome.OK],
        error=outcomes[Outcome.ERROR],
        truncated=outcomes[Outcome.TRUNCATED],
        empty=outcomes[Outcome.EMPTY],
        cancelled=outcomes[Outcome.CANCELLED],
        abandoned=outcomes[Outcome.ABANDONED],
        in_flight=len(set(started) - ended),
    )


def _metrics(samples: Mapping[str, npt.NDArray[np.int64]]) -> dict[str, Percentiles]:
    return {metric.name: _row(samples.get(metric.name)) for metric in BUILTIN}


def _row(values_ns: npt.NDArray[np.int64] | None) -> Percentiles:
    if values_ns is None or values_ns.size == 0:
        return Percentiles(
            count=0, p50=None, p90=None, p99=None, p999=None, max=None, unit="ms", clamped=0
        )
    histogram, clamped = histogram_of(values_ns)
    return percentiles(histogram, clamped=clamped)


def _one_source(sources: frozenset[str]) -> str | None:
    if not sources:
        return None
    return next(iter(sources)) if len(sources) == 1 else "mixed"


def _p99_ms(values_ns: Sequence[int]) -> float | None:
    return _row(np.array(values_ns, dtype=np.int64))["p99"]


def _evidence(
    run: RunRecords,
    group: GroupSummary,
    sources: frozenset[str],
    server: Sequence[ServerFigures],
) -> Evidence:
    lengths = [len(timeline.events) for timeline in run.timelines]
    return Evidence(
        requests=group["requests"],
        record_count=len(run.timelines),
        token_events=sum(lengths),
        streams_with_tokens=sum(length > 0 for length in lengths),
        coalesced_events=group["coalesced_events"],
        median_gap_ms=group["metrics"]["gap"]["p50"],
        connection_wait_ms=_p99_ms(connection_waits_ns(run.timelines, reused=True)),
        stamp_sources=sources,
        clock_steps=sum(timeline.clock_stepped for timeline in run.timelines),
        workers=run.workers,
        record_files=run.record_files,
        unreadable_lines=run.unreadable_lines,
        server=server,
    )
