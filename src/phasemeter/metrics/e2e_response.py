"""End to end from the intended start: last_token - intended, in ns, over planned requests with a token."""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Sequence[int]:
    return span(timeline.intended_ns, timeline.last_token_ns)


E2E_RESPONSE = Metric(
    name="e2e_response",
    title="end to end from the intended start",
    formula="last_token - intended",
    population="requests",
    samples=_samples,
)
