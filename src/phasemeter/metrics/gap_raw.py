"""Raw gap: every gap as the application lived it, those included that it limited itself; in ns, over gaps.

Only of responses that were handed to an application: elsewhere it is `gap`.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def _samples(timeline: Timeline) -> Sequence[int]:
    if not timeline.streamed or not timeline.consumer_waits_ns:
        return ()
    return timeline.all_gaps_ns()


GAP_RAW = Metric(
    name="gap_raw",
    title="gap, consumer-limited ones included",
    formula="t(event k) - t(event k-1), different reads, of responses handed to an application",
    population="gaps",
    samples=_samples,
)
