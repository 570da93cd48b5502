"""Which background gaps an injected prompt can have stretched.

A gap is exposed to an injection when it overlaps [sent, first token] of the injected prompt in the same
run on the same instance of the topology. From the client that interval is an upper bound of the prefill: it holds the
queue too. Without overlap nothing can be said about interference, so the share is reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from phasemeter.analysis.finding import Exposure
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Timeline
from phasemeter.experiments.blocks import Stretch
from phasemeter.metrics.stall import stalls_ns


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far injections and background overlapped on one topology.

    Attributes:
        exposures: Each injection that overlapped a background gap, with the longest such gap.
        injections: Injected prompts that got a first token.
        gaps: Background gaps during the injections' phase.
        exposed_gaps: Those that overlap an injection.
        stalls: Gaps over five times their stream's median, in that phase's streams.
    """

    exposures: tuple[Exposure, ...]
    injections: int
    gaps: int
    exposed_gaps: int
    stalls: int

    @property
    def exposed_share(self) -> float | None:
        """Share of background gaps that overlap an injection; None without gaps."""
        return self.exposed_gaps / self.gaps if self.gaps else None


def overlap_of(arm: str, background: Iterable[Stretch], injected: Iterable[Stretch]) -> Overlap:
    """Return the overlap of injections with background gaps; the two go pairwise by run."""
    exposures: list[Exposure] = []
    injections = gaps = exposed = stalls = 0
    for streams, prompts in zip(background, injected, strict=True):
        spans = _gap_spans(streams)
        gaps += sum(map(len, spans.values()))
        stalls += sum(len(stalls_ns(timeline)) for timeline in streams.timelines)
        for instance, intervals in _prefill_intervals(prompts).items():
            beside = spans.get(instance, [])
            injections += len(intervals)
            exposed += sum(
                any(s < i.end_ns and i.start_ns < e for i in intervals) for s, e in beside
            )
            for one in intervals:
                longest_ns = max(
                    (e - s for s, e in beside if s < one.end_ns and one.start_ns < e), default=None
                )
                if longest_ns is not None:
                    exposures.append(
                        Exposure(
                            arm,
                            one.prompt_tokens,
                            longest_ns / NS_PER_MS,
                            one.start_ns,
                            one.end_ns,
                        )
                    )
    exposures.sort(key=lambda exposure: exposure.started_ns)
    return Overlap(tuple(exposures), injections, gaps, exposed, stalls)


@dataclass(frozen=True, slots=True)
class _Prefill:
    """An injected prompt from its sending to its first token."""

    start_ns: int
    end_ns: int
    prompt_tokens: int


def _gap_spans(stretch: Stretch) -> dict[str, list[tuple[int, int]]]:
    """Return (start, end) of each background gap that ended within the stretch, by instance."""
    mark = stretch.mark
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for timeline in stretch.timelines:
        spans[_instance(timeline)] += [
            (later.t_ns - gap_ns, later.t_ns)
            for gap_ns, later in timeline.gaps()
            if mark.start_ns <= later.t_ns < mark.end_ns
        ]
    return spans


def _prefill_intervals(stretch: Stretch) -> dict[str, list[_Prefill]]:
    intervals: dict[str, list[_Prefill]] = defaultdict(list)
    for timeline in stretch.timelines:
        start_ns, end_ns = timeline.sent_ns, timeline.first_token_ns
        if start_ns is not None and end_ns is not None:
            prompt_tokens = int(timeline.tags.get("prompt_tokens", "0"))
            intervals[_instance(timeline)].append(_Prefill(start_ns, end_ns, prompt_tokens))
    return intervals


def _instance(timeline: Timeline) -> str:
    """The instance that an answer streamed from; the driver tags each request with it."""
    return timeline.tags.get("instance", "")
