"""The self-check: up to which load this machine's figures can be believed.

A truth server on the same machine paces streams and logs when it really sent each token; the load driver
measures them as it would a real server; the two are compared at rising load. The server shares the cores
with the client, so what is found is a lower bound for a client that has its cores to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise

import numpy as np

from phasemeter.analysis.records import RunRecords
from phasemeter.core.clock import NS_PER_MS, now_ns, realtime_offset_ns
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.load.plan import Plan, UserFlow
from phasemeter.load.workload import RequestClass

GAP_ERROR_LIMIT_MS = 0.2
"""Largest error of the gap p99 that is believed."""

TTFT_ERROR_LIMIT_MS = 5.0
CLOCK_STEP_NS = NS_PER_MS
COALESCED_LIMIT = 0.01
"""More gaps than this share lost to reads that brought several events change the percentiles."""

STEPS = (16, 64, 128, 256, 512)
"""Streams at a time, one step after the other."""

RECV_STREAMS = 64
"""Streams at which user-space stamps are compared too, to show what they would cost."""

TOKENS_PER_S = 50.0
STEP_S = 1.5
_SPREAD_S = 0.1
_SPACING_S = (
    2.1  # a step's last answers end before the next begins, unless the machine is far behind
)
_TAG = "streams"


@dataclass(frozen=True, slots=True)
class Step:
    """One load of the check.

    Attributes:
        streams: Streams at a time.
        stamp_source: Where the times come from.
        events_per_s: Token events per second that the server sent.
        gap_p99_ms: Gap p99 as measured.
        true_gap_p99_ms: Gap p99 as sent.
        ttft_error_p99_ms: 99th percentile of the absolute error of `ttft_wire`, request by request.
        coalesced_share: Share of gaps that are unknown since their events came in one read.
        send_lag_p99_ms: How late requests left (p99); None where no plan said when.
    """

    streams: int
    stamp_source: str
    events_per_s: float
    gap_p99_ms: float
    true_gap_p99_ms: float
    ttft_error_p99_ms: float
    coalesced_share: float
    send_lag_p99_ms: float | None

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


def check_plan(steps: Sequence[int]) -> Plan:
    """Return a plan with a flow a step: each stream one request, started within a tenth of a second."""
    tokens = round(STEP_S * TOKENS_PER_S)
    flows = [
        UserFlow(
            name=f"step-{streams}",
            mix=(RequestClass("check", 8, tokens),),
            users=streams,
            start_s=number * _SPACING_S,
            stop_s=number * _SPACING_S + STEP_S,
            spread_s=_SPREAD_S,
            max_requests=streams,
            tags={_TAG: str(streams)},
        )
        for number, streams in enumerate(steps)
    ]
    return Plan(tuple(flows), len(steps) * _SPACING_S, drain_s=10.0, seed=1)


def compare_steps(run: RunRecords, truth: Mapping[str, SentStream]) -> list[Step]:
    """Return what each step of a run showed, rising; without steps of which nothing was measured."""
    by_streams: dict[int, list[Timeline]] = {}
    for timeline in run.timelines:
        by_streams.setdefault(int(timeline.tags[_TAG]), []).append(timeline)
    steps = [compare(streams, by_streams[streams], truth) for streams in sorted(by_streams)]
    return [step for step in steps if step is not None]


def compare(
    streams: int, timelines: Sequence[Timeline], truth: Mapping[str, SentStream]
) -> Step | None:
    """Return what a step showed; None where no stream ended ok with its truth known."""
    gaps_ns: list[int] = []
    true_gaps_ns: list[int] = []
    errors_ns: list[int] = []
    send_lags_ns: list[int] = []
    coalesced = 0
    times_ns: list[int] = []
    for timeline in timelines:
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
        if timeline.intended_ns is not None:
            send_lags_ns.append(timeline.started_ns - timeline.intended_ns)
    if not gaps_ns or not errors_ns:
        return None
    events = len(true_gaps_ns) + len(errors_ns)
    return Step(
        streams=streams,
        stamp_source=timelines[0].stamp_source,
        events_per_s=events / ((max(times_ns) - min(times_ns)) / 1e9),
        gap_p99_ms=_p99_ms(gaps_ns),
        true_gap_p99_ms=_p99_ms(true_gaps_ns),
        ttft_error_p99_ms=_p99_ms(errors_ns),
        coalesced_share=coalesced / len(true_gaps_ns),
        send_lag_p99_ms=_p99_ms(send_lags_ns) if send_lags_ns else None,
    )


def _p99_ms(values_ns: Sequence[int]) -> float:
    return float(np.percentile(values_ns, 99)) / NS_PER_MS


def better_of(steps: Sequence[Step], again: Sequence[Step]) -> list[Step]:
    """Return the steps, with those that a second try showed to be believed in place of the first."""
    second = {step.streams: step for step in again if step.is_believed}
    return [second.get(step.streams, step) for step in steps]


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


@dataclass(slots=True)
class ClockWatch:
    """Compares the wall clock, which kernel stamps are taken from, with the monotonic one, over time.

    Attributes:
        offsets_ns: Wall minus monotonic time at each look.
    """

    offsets_ns: list[int] = field(default_factory=list)

    def look(self) -> None:
        """Compare now; takes a microsecond."""
        self.offsets_ns.append(realtime_offset_ns())

    @property
    def steps(self) -> int:
        """How often the wall clock moved by more than 1 ms between two looks: it was set."""
        return sum(abs(b - a) > CLOCK_STEP_NS for a, b in pairwise(self.offsets_ns))

    @property
    def drift_us(self) -> float | None:
        """How far the two clocks drifted apart, smallest to largest offset; None without looks."""
        if not self.offsets_ns:
            return None
        return (max(self.offsets_ns) - min(self.offsets_ns)) / 1_000
