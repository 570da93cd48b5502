"""Time to first token: first_token - started, in ns, over requests with a token.

Starts before connect and before any wait for a connection, and ends with the first generated token
of any kind (reasoning, content, refusal, tool call, audio), never with a role prelude.

Undefined where the server did not stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Sequence[int]:
    return span(timeline.started_ns, timeline.first_token_ns) if timeline.streamed else ()


TTFT = Metric(
    name="ttft",
    title="time to first token",
    formula="first_token - started",
    population="requests",
    samples=_samples,
)
