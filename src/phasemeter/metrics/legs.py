"""The parts of TTFT where a request has a prefill leg and a decode leg; in ns, over such requests.

`prefill_leg` + `handoff` + `decode_leg` add up to TTFT exactly, where one leg follows the other:

- `prefill_leg`: prefill answered - started. Connecting, the prefill instance's queue and prefill, and
  the whole of its answer's way back.
- `handoff`: decode sent - prefill answered. The client's own: reading the answer, writing the second
  request, connecting where no connection was kept. Undefined where both legs are sent at the same time.
- `decode_leg`: first_token - decode sent, the decode instance's own time to first token. It holds the
  admission, the pull of the KV cache, and one step. Where both legs are sent at the same time it holds
  the prefill too.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric, span


def _prefill_leg(timeline: Timeline) -> Sequence[int]:
    prefill = timeline.leg("prefill")
    return () if prefill is None else span(timeline.started_ns, prefill.ended_ns)


def _handoff(timeline: Timeline) -> Sequence[int]:
    prefill, decode = timeline.leg("prefill"), timeline.leg("decode")
    if prefill is None or decode is None:
        return ()
    taken_ns = span(prefill.ended_ns, decode.sent_ns)
    return taken_ns if taken_ns and taken_ns[0] >= 0 else ()


def _decode_leg(timeline: Timeline) -> Sequence[int]:
    decode = timeline.leg("decode")
    if decode is None or not timeline.streamed:
        return ()
    return span(decode.sent_ns, timeline.first_token_ns)


PREFILL_LEG = Metric(
    "prefill_leg", "prefill leg", "prefill answered - started", "requests", _prefill_leg
)
HANDOFF = Metric("handoff", "hand-off", "decode sent - prefill answered", "requests", _handoff)
DECODE_LEG = Metric(
    "decode_leg", "decode leg to first token", "first_token - decode sent", "requests", _decode_leg
)
