"""Inter-token latency: gap / tokens in the later event, in ns, over gaps whose token count is known.

Consumer-limited gaps are left out, as in `gap`.
"""

from __future__ import annotations

from collections.abc import Iterable

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def _samples(timeline: Timeline) -> Iterable[int]:
    if not timeline.streamed:
        return ()
    return (
        round(gap_ns / later.tokens)
        for gap_ns, later in timeline.gaps()
        if later.tokens and not later.consumer_limited
    )


ITL = Metric(
    name="itl",
    title="inter-token latency",
    formula="gap / tokens in the later event",
    population="gaps",
    samples=_samples,
)
