"""What a client should have reported, worked out from the truth server's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.core.clock import NS_PER_MS, NS_PER_S
from phasemeter.testing.truth.log import RequestTruth

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Span:
    """A percentile as the two samples between which every usual definition of it lies.

    Where a distribution has a step, the definitions differ by the step; no tool is to be blamed for
    the one it uses.
    """

    low_ms: float
    high_ms: float

    def distance_ms(self, said_ms: float) -> float:
        """Return how far a figure is above (below, if negative) the span; 0 within it."""
        return said_ms - min(max(said_ms, self.low_ms), self.high_ms)


@dataclass(frozen=True, slots=True)
class TruthFigures:
    """The load as the server saw it.

    Attributes:
        requests: Streamed requests of the load that were served whole.
        started_ns: First of them received.
        ended_ns: Last token of them sent.
        token_events: Events sent.
        ttft_p50_ms: From the kernel's receive stamp of a request to the send of its first token.
        ttft_p99_ms: Its p99.
        gap_p99_ms: p99 of the time between consecutive sends of a stream, pooled.
        gap_max_ms: Longest of them.
        late_p99_ms: p99 of how late events were against the server's own plan.
        blocked_writes: Writes that the kernel did not take, since the client was not reading.
    """

    requests: int
    started_ns: int
    ended_ns: int
    token_events: int
    ttft_p50_ms: Span
    ttft_p99_ms: Span
    gap_p99_ms: Span
    gap_max_ms: Span
    late_p99_ms: float
    blocked_writes: int

    @property
    def load_s(self) -> float:
        """How long the load took."""
        return (self.ended_ns - self.started_ns) / NS_PER_S

    @property
    def events_per_s(self) -> float:
        """Token events a second over the load."""
        return self.token_events / self.load_s


def load_requests(truths: Sequence[RequestTruth], requests: int, tokens: int) -> list[RequestTruth]:
    """Return the requests of the load, without those that a tool sends before it to try the server.

    Those come first: of more whole streams of the right length than the load has, the last count.
    """
    streams = [one for one in truths if one.stream and one.outcome == "ok" and one.tokens == tokens]
    return sorted(streams, key=lambda one: one.received_ns)[-requests:]


def span_of(samples_ms: npt.NDArray[np.float64], quantile: float) -> Span:
    """Return the samples around a quantile of at least one sample."""
    ordered = np.sort(samples_ms)
    last = len(ordered) - 1
    low, high = floor(quantile * last), min(ceil(quantile * (last + 1)), last)
    return Span(float(ordered[low]), float(ordered[high]))


def truth_figures(truths: Sequence[RequestTruth]) -> TruthFigures:
    """Return the figures of served streams.

    Raises:
        ValueError: If there is no stream with a gap.
    """
    gaps_ns = [np.diff(one.emit_ns) for one in truths]
    if not sum(map(len, gaps_ns)):
        msg = "the server saw no streamed request of the load"
        raise ValueError(msg)
    gaps_ms = np.concatenate(gaps_ns) / NS_PER_MS
    late_ms = (
        np.concatenate([np.array(one.emit_ns) - np.array(one.planned_ns) for one in truths])
        / NS_PER_MS
    )
    ttfts_ms = np.array([one.emit_ns[0] - one.received_ns for one in truths]) / NS_PER_MS
    return TruthFigures(
        requests=len(truths),
        started_ns=min(one.received_ns for one in truths),
        ended_ns=max(one.emit_ns[-1] for one in truths),
        token_events=sum(len(one.emit_ns) for one in truths),
        ttft_p50_ms=span_of(ttfts_ms, 0.5),
        ttft_p99_ms=span_of(ttfts_ms, 0.99),
        gap_p99_ms=span_of(gaps_ms, 0.99),
        gap_max_ms=span_of(gaps_ms, 1.0),
        late_p99_ms=float(np.percentile(late_ms, 99)),
        blocked_writes=sum(one.blocked_writes for one in truths),
    )
