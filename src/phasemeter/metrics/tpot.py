"""Time per output token: (last_token - first_token) / (output_tokens - tokens in the first event).

In ns, over requests. One average a request: a stall disappears in it, so it is never a substitute for
`gap`. Undefined where a count is unknown, where the divisor is below 1, and where all tokens came in
one read.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def tokens_after_first_event(timeline: Timeline) -> int | None:
    """Return how many tokens came after the first token event, or None where that is unknown.

    Where the first event does not tell its tokens, it is taken for one token only if every output
    token had an event of its own (output_tokens = number of token events, plus at most one end token
    without text).
    """
    output_tokens = timeline.usage.output_tokens
    events = timeline.columns
    if output_tokens is None or not events:
        return None
    first = events.tokens[0]
    if first is None:
        textless = output_tokens - len(events)
        if textless not in (0, 1):
            return None
        first = 1
    return output_tokens - first


def _samples(timeline: Timeline) -> Sequence[int]:
    tokens, decode_ns = tokens_after_first_event(timeline), timeline.decode_ns
    if decode_ns is None or tokens is None or tokens < 1:
        return ()
    return (round(decode_ns / tokens),)


TPOT = Metric(
    name="tpot",
    title="time per output token",
    formula="(last_token - first_token) / (output_tokens - tokens in the first event)",
    population="requests",
    samples=_samples,
)
