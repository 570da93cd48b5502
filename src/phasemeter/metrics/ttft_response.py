"""Time to first token from the intended start: first_token - intended, in ns, over planned requests with a token.

What a user waits who arrives on schedule, so a late client or server cannot hide (coordinated
omission; the idea is wrk2's and MLPerf LoadGen's).

Undefined where the server did not stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Sequence[int]:
    return span(timeline.intended_ns, timeline.first_token_ns) if timeline.streamed else ()


TTFT_RESPONSE = Metric(
    name="ttft_response",
    title="time to first token from the intended start",
    formula="first_token - intended",
    population="requests",
    samples=_samples,
)
