"""End to end: last_token - started, in ns, over requests with a token.

Ends with the last generated token, never with the usage event or the end mark.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Sequence[int]:
    return span(timeline.started_ns, timeline.last_token_ns)


E2E = Metric(
    name="e2e",
    title="end to end",
    formula="last_token - started",
    population="requests",
    samples=_samples,
)
