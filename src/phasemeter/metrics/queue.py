"""Client queue: started - intended, in ns, over planned requests.

How long the request waited on our side before it was issued.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Sequence[int]:
    return span(timeline.intended_ns, timeline.started_ns)


QUEUE = Metric(
    name="queue",
    title="client queue",
    formula="started - intended",
    population="requests",
    samples=_samples,
)
