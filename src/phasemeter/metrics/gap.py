"""Gap: difference of consecutive token events of different reads, in ns, over gaps.

Events that came in one read have no gap between them: they are counted as coalesced, never recorded
as 0. An event is not a token; see `itl` for time per token.
"""

from __future__ import annotations

from collections.abc import Iterable

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def _samples(timeline: Timeline) -> Iterable[int]:
    return (gap_ns for gap_ns, _ in timeline.gaps()) if timeline.streamed else ()


GAP = Metric(
    name="gap",
    title="gap between token events",
    formula="t(event k) - t(event k-1), different reads",
    population="gaps",
    samples=_samples,
)
