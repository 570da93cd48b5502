"""Stall: a gap longer than five times the stream's own median gap, in ns, over gaps."""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric

STALL_FACTOR = 5.0


def stalls_ns(timeline: Timeline, factor: float = STALL_FACTOR) -> list[int]:
    """Return the gaps in ns that exceed `factor` times the stream's median gap, in order."""
    ordered_ns = timeline.ordered_gaps_ns()
    if not ordered_ns:
        return []
    limit_ns = factor * ordered_ns[(len(ordered_ns) - 1) // 2]  # the lower median
    if ordered_ns[-1] <= limit_ns:
        return []
    return [gap_ns for gap_ns in timeline.gaps_ns() if gap_ns > limit_ns]


def _samples(timeline: Timeline) -> Sequence[int]:
    return stalls_ns(timeline) if timeline.streamed else ()


STALL = Metric(
    name="stall",
    title="stall",
    formula="gaps > 5 x the stream's median gap",
    population="gaps",
    samples=_samples,
)
