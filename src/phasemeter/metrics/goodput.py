"""Goodput: requests per second that met every SLO; errors count as misses.

Definition after DistServe (arXiv 2401.09670): a request is good only if all of its objectives hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.metrics.metric import Metric


def meets(timeline: Timeline, slos_ns: Sequence[tuple[Metric, int]]) -> bool:
    """Tell whether a response is good: outcome ok and no sample of any SLO's metric above its limit.

    A response for which an SLO's metric is undefined does not meet it.
    """
    if timeline.outcome is not Outcome.OK:
        return False
    for metric, limit_ns in slos_ns:
        samples = metric.samples(timeline)
        if not samples or max(samples) > limit_ns:
            return False
    return True


def goodput_per_s(
    timelines: Iterable[Timeline], slos_ns: Sequence[tuple[Metric, int]], window_s: float
) -> float:
    """Return good requests per second of the window.

    Raises:
        ValueError: If the window is not positive.
    """
    if not window_s > 0:
        msg = f"window_s must be > 0, got {window_s}"
        raise ValueError(msg)
    return sum(meets(timeline, slos_ns) for timeline in timelines) / window_s
