"""Time to first event: first_event - started, in ns, over requests.

The first event may be a role prelude or a lifecycle event; the OpenTelemetry conventions call this
time to first chunk.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Sequence[int]:
    return span(timeline.started_ns, timeline.first_event_ns)


TTFE = Metric(
    name="ttfe",
    title="time to first event",
    formula="first_event - started",
    population="requests",
    samples=_samples,
)
