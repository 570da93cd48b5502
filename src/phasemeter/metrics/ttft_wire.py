"""Time to first token on the wire: first_token - sent, in ns, over requests with a token.

The server and the network alone: connection set-up and client-side waits are outside.

Undefined where the server did not stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _samples(timeline: Timeline) -> Sequence[int]:
    return span(timeline.sent_ns, timeline.first_token_ns) if timeline.streamed else ()


TTFT_WIRE = Metric(
    name="ttft_wire",
    title="time to first token on the wire",
    formula="first_token - sent",
    population="requests",
    samples=_samples,
)
