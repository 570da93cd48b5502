"""Decode span: last_token - first_token, in ns, over requests with a token.

Undefined where the server did not stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Iterable[int]:
    return span(timeline.first_token_ns, timeline.last_token_ns) if timeline.streamed else ()


DECODE = Metric(
    name="decode",
    title="decode span",
    formula="last_token - first_token",
    population="requests",
    samples=_samples,
)
