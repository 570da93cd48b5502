"""Time to first answer token: first_answer - started, in ns, over requests with an answer token.

The first token of kind content: neither reasoning nor a tool call nor a refusal.

Undefined where the server did not stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Sequence[int]:
    return span(timeline.started_ns, timeline.first_answer_ns) if timeline.streamed else ()


TTFA = Metric(
    name="ttfa",
    title="time to first answer token",
    formula="first_answer - started",
    population="requests",
    samples=_samples,
)
