"""Tokens and requests per second, over the whole run and over the steady window.

Counted are ok responses: a request where it ended, a token where its event arrived. Where events do not
tell their tokens, the count of the response's usage is spread evenly over its events; where that is
missing too the token rate is unknown and only the event rate is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasemeter.analysis.shape import Rates, Throughput
from phasemeter.analysis.window import Window, steady_window, whole_window
from phasemeter.core.timeline import Outcome, Timeline

if TYPE_CHECKING:
    import numpy.typing as npt

TokenSource = Literal["events", "usage", "unknown"]


def throughput(
    timelines: Sequence[Timeline], windows: Sequence[Window] | None = None
) -> Throughput:
    """Return the rates of a group of responses.

    Args:
        timelines: The responses that ended, of any outcome.
        windows: Disjoint stretches that stand for the whole run, for instance the repeats of one
            arm among others; there is no steady window then. First start to last end where None.
    """
    finished = _Finished.of(timelines)
    if windows is not None:
        whole, steady = finished.rates(windows), None
    else:
        whole = finished.rates([window] if (window := whole_window(timelines)) else [])
        steady = finished.rates([window] if (window := steady_window(timelines)) else [])
    return Throughput(whole=whole, steady=steady, tokens_from=finished.tokens_from)


@dataclass(frozen=True, slots=True)
class _Finished:
    """The ok responses of a group as arrays: their ends, and their tokens with arrival times."""

    origin_ns: int
    ends_ns: npt.NDArray[np.int64]
    arrivals_ns: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.float64]
    tokens_from: Literal["events", "usage", "mixed", "unknown"]

    @classmethod
    def of(cls, timelines: Sequence[Timeline]) -> _Finished:
        finished = [timeline for timeline in timelines if timeline.outcome is Outcome.OK]
        arrivals_ns, tokens = token_arrivals(finished)
        return cls(
            origin_ns=min((timeline.started_ns for timeline in timelines), default=0),
            ends_ns=np.fromiter((timeline.ended_ns for timeline in finished), dtype=np.int64),
            arrivals_ns=arrivals_ns,
            tokens=tokens,
            tokens_from=_one_source({source for source, _ in map(token_weights, finished)}),
        )

    def rates(self, windows: Sequence[Window]) -> Rates | None:
        """Return the rates over the windows together, None where no time passed in them."""
        duration_s = sum(window.duration_s for window in windows)
        if duration_s <= 0:
            return None
        inside = _inside(self.arrivals_ns, windows)
        total = float(self.tokens[inside].sum())
        return Rates(
            start_s=(min(window.start_ns for window in windows) - self.origin_ns) / 1e9,
            end_s=(max(window.end_ns for window in windows) - self.origin_ns) / 1e9,
            duration_s=duration_s,
            requests_per_s=_inside(self.ends_ns, windows).size / duration_s,
            output_tokens_per_s=None if np.isnan(total) else total / duration_s,
            token_events_per_s=inside.size / duration_s,
        )


def _inside(times_ns: npt.NDArray[np.int64], windows: Sequence[Window]) -> npt.NDArray[np.intp]:
    """Return the indexes of the instants within the windows, ends included."""
    mask = np.zeros(times_ns.size, dtype=np.bool_)
    for window in windows:
        mask |= (times_ns >= window.start_ns) & (times_ns <= window.end_ns)
    return np.flatnonzero(mask)


def token_arrivals(
    timelines: Sequence[Timeline],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return when token events arrived (ns) and how many tokens each brought (NaN where unknown)."""
    times_ns = np.fromiter(_event_times(timelines), dtype=np.int64)
    tokens = np.fromiter(_event_tokens(timelines), dtype=np.float64, count=times_ns.size)
    return times_ns, tokens


def token_weights(timeline: Timeline) -> tuple[TokenSource | None, float | None]:
    """Tell where a response's tokens per event come from.

    Returns:
        (events, None) if every event tells its own; (usage, share of each event); (unknown, None);
        (None, None) for a response without token events.
    """
    if not timeline.events:
        return None, None
    if all(event.tokens is not None for event in timeline.events):
        return "events", None
    if timeline.usage.output_tokens is not None:
        return "usage", timeline.usage.output_tokens / len(timeline.events)
    return "unknown", None


def _event_times(timelines: Sequence[Timeline]) -> Iterator[int]:
    return (event.t_ns for timeline in timelines for event in timeline.events)


def _event_tokens(timelines: Sequence[Timeline]) -> Iterator[float]:
    for timeline in timelines:
        source, share = token_weights(timeline)
        if source == "events":
            yield from (float(event.tokens or 0) for event in timeline.events)
        else:
            yield from [float("nan") if share is None else share] * len(timeline.events)


def _one_source(
    found: set[TokenSource | None],
) -> Literal["events", "usage", "mixed", "unknown"]:
    sources = {source for source in found if source is not None}
    if not sources or "unknown" in sources:
        return "unknown"
    return sources.pop() if len(sources) == 1 else "mixed"
