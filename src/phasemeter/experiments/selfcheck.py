"""The self-check: up to which load this machine's figures can be believed.

A truth server on the same machine paces streams and logs when it really sent each token; the load driver
measures them as it would a real server; the two are compared at rising load. The server shares the cores
with the client, so what is found is a lower bound for a client that has its cores to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from phasemeter.analysis.records import RunRecords, WorkerEnd
from phasemeter.core.clock import NS_PER_MS, now_ns
from phasemeter.core.timeline import Outcome
from phasemeter.load.plan import Plan, UserFlow
from phasemeter.load.workload import RequestClass

GAP_ERROR_LIMIT_MS = 0.2
"""Largest error of the gap p99 that is believed."""

TTFT_ERROR_LIMIT_MS = 5.0
COALESCED_LIMIT = 0.01
"""More gaps than this share lost to reads that brought several events change the percentiles."""

STEPS = (16, 64, 128, 256)
"""Streams at a time."""

TOKENS_PER_S = 50.0
STEP_S = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """One load of the check.

    Attributes:
        streams: Streams at a time.
        events_per_s: Token events per second that the server sent.
        gap_p99_ms: Gap p99 as measured.
        true_gap_p99_ms: Gap p99 as sent.
        ttft_error_p99_ms: 99th percentile of the absolute error of `ttft_wire`, request by request.
        coalesced_share: Share of gaps that are unknown since their events came in one read.
        send_lag_p99_ms: How late requests left (p99); None where the driver did not say.
        stamp_source: Where the times come from.
    """

    streams: int
    events_per_s: float
    gap_p99_ms: float
    true_gap_p99_ms: float
    ttft_error_p99_ms: float
    coalesced_share: float
    send_lag_p99_ms: float | None
    stamp_source: str

    @property
    def gap_error_ms(self) -> float:
        """Measured minus true gap p99."""
        return self.gap_p99_ms - self.true_gap_p99_ms

    @property
    def is_believed(self) -> bool:
        """True when every error is within its limit."""
        return (
            abs(self.gap_error_ms) <= GAP_ERROR_LIMIT_MS
            and self.ttft_error_p99_ms <= TTFT_ERROR_LIMIT_MS
            and self.coalesced_share <= COALESCED_LIMIT
        )

    def to_json(self) -> dict[str, object]:
        """Return the step for `--json`."""
        return {**asdict(self), "gap_error_ms": self.gap_error_ms, "believed": self.is_believed}


@dataclass(frozen=True, slots=True)
class SentStream:
    """What the truth server knows of one request, monotonic ns.

    Attributes:
        received_ns: The request had arrived.
        emit_ns: Just before each token event was sent.
    """

    received_ns: int
    emit_ns: Sequence[int]


def step_plan(streams: int) -> Plan:
    """Return the plan of one step: each stream one request, started within a tenth of a second."""
    tokens = round(STEP_S * TOKENS_PER_S)
    flow = UserFlow(
        name="check",
        mix=(RequestClass("check", 8, tokens),),
        users=streams,
        start_s=0.0,
        stop_s=STEP_S,
        spread_s=0.1,
        max_requests=streams,
    )
    return Plan((flow,), duration_s=STEP_S, drain_s=10.0, seed=1)


def compare(streams: int, run: RunRecords, truth: Mapping[str, SentStream]) -> Step | None:
    """Return what a step showed; None where no stream ended ok with its truth known."""
    gaps_ns: list[int] = []
    true_gaps_ns: list[int] = []
    errors_ns: list[int] = []
    coalesced = 0
    times_ns: list[int] = []
    for timeline in run.timelines:
        sent = truth.get(timeline.request_id)
        if timeline.outcome is not Outcome.OK or sent is None or timeline.first_token_ns is None:
            continue
        gaps_ns += [gap_ns for gap_ns, _ in timeline.gaps()]
        true_gaps_ns += np.diff(sent.emit_ns).tolist()
        coalesced += timeline.coalesced_events
        times_ns += [sent.emit_ns[0], sent.emit_ns[-1]]
        if timeline.sent_ns is not None:
            measured_ns = timeline.first_token_ns - timeline.sent_ns
            errors_ns.append(abs(measured_ns - (sent.emit_ns[0] - sent.received_ns)))
    if not gaps_ns or not errors_ns:
        return None
    events = len(true_gaps_ns) + len(errors_ns)
    worker = run.workers[0] if run.workers else None
    return Step(
        streams=streams,
        events_per_s=events / ((max(times_ns) - min(times_ns)) / 1e9),
        gap_p99_ms=float(np.percentile(gaps_ns, 99)) / NS_PER_MS,
        true_gap_p99_ms=float(np.percentile(true_gaps_ns, 99)) / NS_PER_MS,
        ttft_error_p99_ms=float(np.percentile(errors_ns, 99)) / NS_PER_MS,
        coalesced_share=coalesced / len(true_gaps_ns),
        send_lag_p99_ms=_lag_ms(worker),
        stamp_source=run.timelines[0].stamp_source,
    )


def believed_events_per_s(steps: Sequence[Step]) -> float | None:
    """Return the highest load below the first step that is not believed; None for none."""
    highest = None
    for step in steps:
        if not step.is_believed:
            break
        highest = step.events_per_s
    return highest


def clock_resolution_ns(reads: int = 10_000) -> int:
    """Return the smallest positive difference of consecutive readings of the clock."""
    readings = [now_ns() for _ in range(reads)]
    return min(b - a for a, b in pairwise(readings) if b > a)


def _lag_ms(worker: WorkerEnd | None) -> float | None:
    if worker is None or worker.send_lag_ns is None:
        return None
    return worker.send_lag_ns[1] / NS_PER_MS
