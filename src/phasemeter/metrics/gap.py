"""Gap: difference of consecutive token events of different reads, in ns, over gaps.

Events that came in one read have no gap between them: they are counted as coalesced, never recorded
as 0. A gap that the application limited, by asking for one of its events later than that had arrived,
is no gap of the stream: it is in `gap_raw` only. An event is not a token; see `itl` for time per token.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def _samples(timeline: Timeline) -> Sequence[int]:
    return timeline.gaps_ns() if timeline.streamed else ()


GAP = Metric(
    name="gap",
    title="gap between token events",
    formula="t(event k) - t(event k-1), different reads, not consumer-limited",
    population="gaps",
    samples=_samples,
)
