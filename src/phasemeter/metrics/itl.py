"""Inter-token latency: gap / tokens in the later event, in ns, over gaps whose token count is known.

Consumer-limited gaps are left out, as in `gap`.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def _samples(timeline: Timeline) -> Sequence[int]:
    tokens = timeline.gap_tokens()
    if not timeline.streamed or not any(tokens):
        return ()
    return [
        round(gap_ns / count)
        for gap_ns, count in zip(timeline.gaps_ns(), tokens, strict=True)
        if count
    ]


ITL = Metric(
    name="itl",
    title="inter-token latency",
    formula="gap / tokens in the later event",
    population="gaps",
    samples=_samples,
)
