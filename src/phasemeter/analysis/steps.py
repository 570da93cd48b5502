"""The steps of a serving engine, from the arrivals of concurrent streams alone.

An engine with continuous batching computes one token of every running stream in each step, so the tokens
of its streams arrive in clusters, one a step. Two tokens of one stream are never of the same step: each
gap of each stream holds at least one boundary between steps. The fewest boundaries that do so are found by
stabbing the gaps, which needs no threshold and does not split a step whose tokens were sent haltingly.
Where it leaves a choice, the widest silence decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from phasemeter.core.timeline import Timeline

Times = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]

UNKNOWN_NS = -1
"""Stands for a duration that is not known in an array of durations."""

FEWEST_STREAMS = 2
FEWEST_STEPS = 20
MOST_EVENTS = 1_000_000
"""More token events than this are cut off, from the end of the run."""

MOST_SEVERAL_SHARE = 0.05
"""Share of token events with several tokens up to which steps are told."""

MOST_COALESCED_SHARE = 0.4
"""Share of token events that share a read with an earlier one, up to which steps are told."""

LEAST_IN_STEP_SHARE = 0.9
"""Share of gaps that pass over no step of the others; with two engines behind one address it is lower."""

MOST_SPREAD = 0.25
"""Spread of the arrivals within a step, over the median step, at the third quartile of the steps."""

_SILENCE = 0.5
"""First tokens this share of the median gap away from the others are of a step without them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something cannot be told from a run's arrivals, in a sentence without its full stop."""

    reason: str


@dataclass(frozen=True)
class StepSeries:
    """The steps of one engine, in order.

    Attributes:
        ends_ns: First arrival of each step's tokens; monotonic ns.
        durations_ns: Time since the end of the step before; `UNKNOWN_NS` where no stream runs across
            both, so that the engine may have had nothing to do in between, and where a stream has
            several tokens, so that these are several steps.
        decodes: Tokens of streams that had a token before.
        first_tokens: First tokens in the step.
        in_step_share: Share of the streams' gaps that pass over no step.
        spread: Third quartile over the steps of (last - first arrival) / median step.
        streams: Streams with tokens, at the median step.
        events: Arrivals used.
        is_cut: The run had more than `MOST_EVENTS` token events; its end is left out.
    """

    ends_ns: Times
    durations_ns: Times
    decodes: Counts
    first_tokens: Counts
    in_step_share: float
    spread: float
    streams: float
    events: int
    is_cut: bool

    @cached_property
    def known_ns(self) -> Times:
        """The durations that are known."""
        known: Times = self.durations_ns[self.durations_ns != UNKNOWN_NS]
        return known

    def step_of(self, t_ns: int) -> int:
        """Return the number of the step that an arrival belongs to; -1 before the first."""
        return int(np.searchsorted(self.ends_ns, t_ns, side="right")) - 1


def reconstruct(timelines: Sequence[Timeline]) -> StepSeries | Refusal:
    """Return the steps of the engine that all these responses streamed from.

    Args:
        timelines: Responses of one engine, of any outcome.

    Returns:
        The steps, or why they cannot be told.
    """
    all_streams = [timeline for timeline in timelines if timeline.streamed and timeline.events]
    streams, until_ns = _first_streams(all_streams)
    reason = _reason_against(streams)
    if reason is not None:
        return Refusal(reason)
    arrivals = _Arrivals.of(streams, until_ns)
    if arrivals.gap_starts_ns.size == 0:
        return Refusal("no stream has two token events")
    series = _series(arrivals)
    reason = _reason_against_series(series)
    return series if reason is None else Refusal(reason)


def _first_streams(streams: Sequence[Timeline]) -> tuple[list[Timeline], int | None]:
    """Return the streams that began first, up to `MOST_EVENTS`, and when the first of the rest began."""
    ordered = sorted(streams, key=lambda timeline: timeline.events[0].t_ns)
    events = 0
    for number, timeline in enumerate(ordered):
        events += len(timeline.events)
        if events > MOST_EVENTS and number:
            return ordered[:number], timeline.events[0].t_ns
    return ordered, None


def _reason_against(streams: Sequence[Timeline]) -> str | None:
    if len(streams) < FEWEST_STREAMS:
        return "streams ran one at a time; two at a time are needed to tell steps"
    sources = {timeline.stamp_source for timeline in streams} - {"kernel", "recv"}
    if sources:
        return f"arrivals are stamped by {', '.join(sorted(sources))}, not at the socket"
    if any(timeline.clock_stepped for timeline in streams):
        return "the wall clock was set during responses, and kernel stamps are taken from it"
    events = sum(len(timeline.events) for timeline in streams)
    several = sum(_events_with_several(timeline) for timeline in streams)
    if several > MOST_SEVERAL_SHARE * events:
        return (
            f"{several / events:.0%} of the token events carry several tokens, so of several steps"
        )
    unknown = sum(len(timeline.events) for timeline in streams if not _tells_tokens(timeline))
    if unknown > MOST_SEVERAL_SHARE * events:
        return "the responses do not tell how many tokens their events carry"
    coalesced = sum(timeline.coalesced_events for timeline in streams)
    if coalesced > MOST_COALESCED_SHARE * events:
        return (
            f"{coalesced / events:.0%} of the token events came in one read with others: something "
            "buffers, or the client was late"
        )
    return None


def _events_with_several(timeline: Timeline) -> int:
    """Return how many events carry several tokens, at least, as far as events or usage tell."""
    told = sum(event.tokens is not None and event.tokens > 1 for event in timeline.events)
    output = timeline.usage.output_tokens
    if told or output is None or any(event.tokens is not None for event in timeline.events):
        return told
    return max(output - len(timeline.events), 0)


def _tells_tokens(timeline: Timeline) -> bool:
    if timeline.usage.output_tokens is not None:
        return True
    return all(event.tokens is not None for event in timeline.events)


def _reason_against_series(series: StepSeries) -> str | None:
    if series.ends_ns.size < FEWEST_STEPS:
        return f"{series.ends_ns.size} steps; {FEWEST_STEPS} are needed"
    if series.streams < FEWEST_STREAMS:
        return "streams ran one at a time; two at a time are needed to tell steps"
    if series.in_step_share < LEAST_IN_STEP_SHARE or series.spread > MOST_SPREAD:
        return (
            f"the streams do not keep step ({series.in_step_share:.0%} of their gaps pass over no "
            f"other's token, arrivals of a step spread over {series.spread:.0%} of it): several "
            "engines behind one address, or something between that buffers"
        )
    return None


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """Arrivals of all streams by time, and the gaps between those of one stream.

    Several token events of one read are one arrival, marked as `several`.
    """

    times_ns: Times
    is_first: npt.NDArray[np.bool_]
    several: npt.NDArray[np.bool_]
    gap_starts_ns: Times
    gap_ends_ns: Times
    is_cut: bool

    @classmethod
    def of(cls, streams: Sequence[Timeline], until_ns: int | None) -> _Arrivals:
        times: list[int] = []
        first: list[bool] = []
        several: list[bool] = []
        starts: list[int] = []
        ends: list[int] = []
        for timeline in streams:
            tokens: dict[int, int] = {}
            for event in timeline.events:
                tokens[event.t_ns] = tokens.get(event.t_ns, 0) + (event.tokens or 1)
            own = list(tokens)
            times += own
            first += [True] + [False] * (len(own) - 1)
            several += [number > 1 for number in tokens.values()]
            starts += own[:-1]
            ends += own[1:]
        times_ns = np.array(times, dtype=np.int64)
        order = np.argsort(times_ns, kind="stable")
        kept = order if until_ns is None else order[times_ns[order] < until_ns]
        last_ns = times_ns[kept[-1]]
        gap_starts_ns, gap_ends_ns = (np.array(one, dtype=np.int64) for one in (starts, ends))
        inside = gap_ends_ns <= last_ns
        return cls(
            times_ns[kept],
            np.array(first, dtype=np.bool_)[kept],
            np.array(several, dtype=np.bool_)[kept],
            gap_starts_ns[inside],
            gap_ends_ns[inside],
            until_ns is not None,
        )


def _series(arrivals: _Arrivals) -> StepSeries:
    times_ns = arrivals.times_ns
    typical_ns = float(np.median(arrivals.gap_ends_ns - arrivals.gap_starts_ns))
    bounds = _moved_to_silences(_stabbed(arrivals), arrivals)
    heads = np.unique(np.concatenate(([0], np.searchsorted(times_ns, bounds))))
    heads = _with_lone_first_tokens(heads, arrivals, _SILENCE * typical_ns)
    ends_ns = times_ns[heads]
    last_ns = times_ns[np.append(heads[1:], times_ns.size) - 1]
    firsts = np.add.reduceat(arrivals.is_first, heads, dtype=np.int64)
    tokens = np.diff(np.append(heads, times_ns.size))
    # What a gap reaches across: its own boundary, and any that it passes over.
    before = np.searchsorted(ends_ns, arrivals.gap_starts_ns, side="right") - 1
    after = np.searchsorted(ends_ns, arrivals.gap_ends_ns, side="right") - 1
    crossed = after - before
    running = np.zeros(ends_ns.size + 1, dtype=np.int64)
    np.add.at(running, before + 1, 1)
    np.add.at(running, after + 1, -1)
    known = (np.cumsum(running)[:-1] > 0) & ~np.logical_or.reduceat(arrivals.several, heads)
    durations_ns = np.where(known, np.diff(ends_ns, prepend=ends_ns[0]), UNKNOWN_NS)
    known_ns = durations_ns[known]
    median_ns = float(np.median(known_ns)) if known_ns.size else typical_ns
    return StepSeries(
        ends_ns=ends_ns,
        durations_ns=durations_ns,
        decodes=tokens - firsts,
        first_tokens=firsts,
        in_step_share=float(np.mean(crossed <= 1)),
        spread=float(np.quantile((last_ns - ends_ns) / max(median_ns, 1.0), 0.75)),
        streams=float(np.median(tokens)),
        events=times_ns.size,
        is_cut=arrivals.is_cut,
    )


def _stabbed(arrivals: _Arrivals) -> Times:
    """Return the fewest instants such that each gap (start, end] holds one: each gap's end in turn."""
    order = np.argsort(arrivals.gap_ends_ns, kind="stable")
    found: list[int] = []
    latest = -1
    for start, end in zip(
        arrivals.gap_starts_ns[order].tolist(), arrivals.gap_ends_ns[order].tolist(), strict=True
    ):
        if start >= latest:
            latest = end
            found.append(end)
    return np.array(found, dtype=np.int64)


def _moved_to_silences(bounds: Times, arrivals: _Arrivals) -> Times:
    """Move each boundary to the widest silence between the middles of the two steps that it parts.

    A boundary stays where it was if a stream would then have two tokens in one step.
    """
    times_ns = arrivals.times_ns
    heads = np.concatenate(([0], np.searchsorted(times_ns, bounds)))
    sizes = np.diff(np.append(heads, times_ns.size))
    from_ = (heads + sizes // 2)[:-1].tolist()
    to = (heads + (sizes - 1) // 2)[1:].tolist()
    silences = np.diff(times_ns)
    moved = bounds.copy()
    for number, (begin, end) in enumerate(zip(from_, to, strict=True)):
        moved[number] = times_ns[begin + 1 + int(np.argmax(silences[begin:end]))]
    starts_ns, gap_ends_ns = arrivals.gap_starts_ns, arrivals.gap_ends_ns
    low = np.searchsorted(bounds, starts_ns, side="right")
    high = np.searchsorted(bounds, gap_ends_ns, side="right")
    while True:
        inside = np.searchsorted(moved, gap_ends_ns, side="right") - np.searchsorted(
            moved, starts_ns, side="right"
        )
        without = np.flatnonzero(inside == 0).tolist()
        if not without:
            return moved
        for gap in without:  # each is held apart by what it had, from now on
            moved[low[gap] : high[gap]] = bounds[low[gap] : high[gap]]


def _with_lone_first_tokens(heads: Counts, arrivals: _Arrivals, silence_ns: float) -> Counts:
    """Cut off first tokens that came long before or after the others: a step that held prompts only."""
    times_ns, is_first = arrivals.times_ns, arrivals.is_first
    cuts = np.flatnonzero(np.diff(times_ns) > silence_ns) + 1
    own = np.searchsorted(heads, cuts, side="right") - 1
    tails = np.append(heads[1:], times_ns.size)
    lone = [
        cut
        for cut, step in zip(cuts.tolist(), own.tolist(), strict=True)
        if cut != heads[step]
        and (is_first[heads[step] : cut].all() or is_first[cut : tails[step]].all())
    ]
    return np.unique(np.concatenate((heads, np.array(lone, dtype=np.int64))))
