"""Decode span: last_token - first_token, in ns, over requests whose tokens came in several reads.

Undefined where the server did not stream, and where all tokens came at once: how long they took to be
written is then unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.timeline import Timeline
from phasemeter.metrics.metric import Metric


def _samples(timeline: Timeline) -> Sequence[int]:
    return () if timeline.decode_ns is None else (timeline.decode_ns,)


DECODE = Metric(
    name="decode",
    title="decode span",
    formula="last_token - first_token",
    population="requests",
    samples=_samples,
)
