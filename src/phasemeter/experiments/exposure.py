"""Which background gaps an injected prompt can have stretched.

A gap is exposed to an injection when it overlaps [sent, first token] of the injected prompt on the same
topology in the same run. From the client that interval is an upper bound of the prefill: it holds the
queue too. Without overlap nothing can be said about interference, so the share is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from phasemeter.analysis.finding import Exposure
from phasemeter.core.clock import NS_PER_MS
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
        intervals = _prefill_intervals(prompts)
        gaps += len(spans)
        injections += len(intervals)
        exposed += sum(any(s < e1 and s1 < e for s1, e1, _ in intervals) for s, e in spans)
        stalls += sum(len(stalls_ns(timeline)) for timeline in streams.timelines)
        for sent_ns, first_token_ns, prompt_tokens in intervals:
            overlapping = [e - s for s, e in spans if s < first_token_ns and sent_ns < e]
            if overlapping:
                longest_ms = max(overlapping) / NS_PER_MS
                exposures.append(Exposure(arm, prompt_tokens, longest_ms, sent_ns, first_token_ns))
    return Overlap(tuple(exposures), injections, gaps, exposed, stalls)


def _gap_spans(stretch: Stretch) -> list[tuple[int, int]]:
    """Return (start, end) of each background gap that ended within the stretch."""
    mark = stretch.mark
    return [
        (later.t_ns - gap_ns, later.t_ns)
        for timeline in stretch.timelines
        for gap_ns, later in timeline.gaps()
        if mark.start_ns <= later.t_ns < mark.end_ns
    ]


def _prefill_intervals(stretch: Stretch) -> Sequence[tuple[int, int, int]]:
    """Return (sent, first token, prompt tokens) of each injected prompt."""
    return [
        (timeline.sent_ns, timeline.first_token_ns, int(timeline.tags.get("prompt_tokens", "0")))
        for timeline in stretch.timelines
        if timeline.sent_ns is not None and timeline.first_token_ns is not None
    ]
