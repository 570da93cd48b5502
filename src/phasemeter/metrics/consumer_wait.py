"""Consumer wait: time between handing an event to the application and being asked for the next one.

In ns, over pulls. It is the application's time, not the server's.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def _samples(timeline: Timeline) -> Sequence[int]:
    return timeline.consumer_waits_ns


CONSUMER_WAIT = Metric(
    name="consumer_wait",
    title="consumer wait",
    formula="asked for the next event - handed over the last one",
    population="pulls",
    samples=_samples,
)
