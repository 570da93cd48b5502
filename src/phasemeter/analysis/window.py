"""The steady window: the run without its ramp and its drain.

Rule: the level of a run is the time-weighted median of the number of requests in flight; the window goes
from the first instant at which at least 80 % of that level is in flight to the last one. Short dips in
between stay inside (a closed loop dips whenever one user's answer ends). The idea of a window cut by
concurrency is SGLang's `steady_state_serving`; the median instead of the peak keeps one burst of an open
loop from deciding the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasemeter.core.timeline import Timeline

STEADY_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time in monotonic ns, end not included."""

    start_ns: int
    end_ns: int

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


def whole_window(timelines: Sequence[Timeline]) -> Window | None:
    """Return first start to last end, or None where nothing ended or no time passed."""
    if not timelines:
        return None
    start_ns = min(timeline.started_ns for timeline in timelines)
    end_ns = max(timeline.ended_ns for timeline in timelines)
    return Window(start_ns, end_ns) if end_ns > start_ns else None


def steady_window(timelines: Sequence[Timeline]) -> Window | None:
    """Return the window in which the run was at its level, or None where there is none."""
    if not timelines:
        return None
    starts = np.array([timeline.started_ns for timeline in timelines], dtype=np.int64)
    ends = np.array([timeline.ended_ns for timeline in timelines], dtype=np.int64)
    times = np.concatenate([starts, ends])
    steps = np.concatenate([np.ones_like(starts), -np.ones_like(ends)])
    order = np.argsort(times, kind="stable")
    times, in_flight = times[order], np.cumsum(steps[order])
    widths = np.diff(times)
    if widths.sum() == 0:
        return None
    level = _weighted_median(in_flight[:-1], widths)
    at_level = np.flatnonzero((in_flight[:-1] >= max(STEADY_SHARE * level, 1)) & (widths > 0))
    if at_level.size == 0:
        return None
    return Window(int(times[at_level[0]]), int(times[at_level[-1] + 1]))


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(running, running[-1] / 2)])
