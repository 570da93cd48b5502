"""How much work was done in the measured stretches of a run, block by block.

Each function gives (work, seconds) blocks for `analysis.bootstrapped`. Only ok responses count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from phasemeter.analysis.throughput import token_weights
from phasemeter.core.clock import NS_PER_S
from phasemeter.core.timeline import Timeline
from phasemeter.experiments.blocks import BLOCK_NS, Stretch, token_blocks

Blocks = list[tuple[float, float]]

_BLOCK_S = BLOCK_NS / NS_PER_S


def prompt_token_blocks(stretches: Sequence[Stretch]) -> Blocks:
    """Return prompt tokens, those of a request spread evenly from its start to its first token.

    As the server counts them where it does, else as they were asked for.
    """
    return _spread(
        stretches,
        lambda one: (one.started_ns, one.first_token_ns or one.ended_ns, prompt_tokens(one)),
    )


def request_blocks(stretches: Sequence[Stretch]) -> Blocks:
    """Return requests, each spread evenly from its start to its end."""
    return _spread(stretches, lambda one: (one.started_ns, one.ended_ns, 1.0))


def output_token_blocks(stretches: Iterable[Stretch]) -> Blocks:
    """Return the output tokens that arrived in each whole block of time; empty where not told."""
    return [(float(one[0]), _BLOCK_S) for one in token_blocks(stretches).values()]


def decode_blocks(stretches: Iterable[Stretch], streams: int) -> Blocks:
    """Return what was decoded while exactly so many streams decoded.

    A stream decodes from its first to its last token. In a closed loop of as many users no prompt is in
    flight while all of them decode, so no prefill is in these times. Counted are the gaps of single
    streams that lie within them: a gap begins and ends at the same place of a step, whereas tokens per
    time would lose or gain those of a step's other streams at each edge. A block is one such time, or
    `BLOCK_NS` of it.
    """
    blocks: Blocks = []
    for stretch in stretches:
        spans = list(_together(stretch, streams))
        gaps = [gap for timeline in stretch.timelines for gap in _gaps(timeline)]
        if not spans or not gaps:
            continue
        starts_ns, ends_ns = np.array(spans, dtype=np.int64).T
        begun_ns, ended_ns = np.array([gap[:2] for gap in gaps], dtype=np.int64).T
        tokens = np.array([gap[2] for gap in gaps])
        if np.isnan(tokens).any():
            return []
        span = np.searchsorted(starts_ns, begun_ns, side="right") - 1
        inside = (span >= 0) & (ended_ns <= ends_ns[span])
        span, begun_ns, ended_ns = span[inside], begun_ns[inside], ended_ns[inside]
        cells = np.stack([span, (ended_ns - starts_ns[span]) // BLOCK_NS])
        found, block = np.unique(cells, axis=1, return_inverse=True)
        number = found.shape[1]
        work = np.bincount(block.ravel(), weights=tokens[inside], minlength=number)
        gap_ns = np.bincount(block.ravel(), weights=ended_ns - begun_ns, minlength=number)
        seconds = gap_ns / NS_PER_S / streams
        blocks += list(zip(work.tolist(), seconds.tolist(), strict=True))
    return blocks


def most_together(stretches: Iterable[Stretch]) -> int:
    """Return the largest number of streams that decoded at a time."""
    return max(
        (int(level) for stretch in stretches for _, _, level in _levels(stretch.timelines)),
        default=0,
    )


def _together(stretch: Stretch, streams: int) -> Iterator[tuple[int, int]]:
    """Yield the times within the stretch in which exactly so many streams decoded."""
    mark = stretch.mark
    for start_ns, end_ns, level in _levels(stretch.timelines):
        if level == streams and start_ns < mark.end_ns and end_ns > mark.start_ns:
            yield max(start_ns, mark.start_ns), min(end_ns, mark.end_ns)


def _levels(timelines: Sequence[Timeline]) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, streams that decode) for each stretch between two changes."""
    spans = [
        (one.first_token_ns, one.last_token_ns)
        for one in timelines
        if one.first_token_ns is not None and one.last_token_ns is not None
    ]
    times_ns = np.array([t for span in spans for t in span], dtype=np.int64)
    steps = np.array([1, -1] * len(spans), dtype=np.int64)
    order = np.argsort(times_ns, kind="stable")
    times_ns, levels = times_ns[order], np.cumsum(steps[order])
    yield from zip(times_ns[:-1].tolist(), times_ns[1:].tolist(), levels[:-1].tolist(), strict=True)


def _gaps(timeline: Timeline) -> Iterator[tuple[int, int, float]]:
    """Yield (start, end, tokens that came at the end) between reads; NaN tokens where not told."""
    _, share = token_weights(timeline)
    before_ns: int | None = None
    for _, events in groupby(timeline.events, key=lambda event: event.read):
        together = list(events)
        told = [share if one.tokens is None else one.tokens for one in together]
        tokens = math.nan if None in told else float(sum(one or 0 for one in told))
        t_ns = together[-1].t_ns
        if before_ns is not None:
            yield before_ns, t_ns, tokens
        before_ns = t_ns


def _spread(
    stretches: Sequence[Stretch], work_of: Callable[[Timeline], tuple[int, int, float]]
) -> Blocks:
    """Return work that is spread over the time in which it was done.

    Counting ends instead would depend on where a wave of requests that end together falls. What is
    spread hangs together for as long as a request takes, so no block is shorter than that (the median).
    """
    done = [[work_of(one) for one in stretch.timelines] for stretch in stretches]
    lengths_ns = [end_ns - start_ns for one in done for start_ns, end_ns, _ in one]
    if not lengths_ns:
        return []
    block_ns = max(BLOCK_NS, round(float(np.median(lengths_ns))))
    blocks: Blocks = []
    for stretch, spans in zip(stretches, done, strict=True):
        whole_ns = stretch.mark.end_ns - stretch.mark.start_ns
        edges_ns = stretch.mark.start_ns + np.linspace(
            0, whole_ns, max(whole_ns // block_ns, 1) + 1
        )
        so_far = np.zeros_like(edges_ns)
        for start_ns, end_ns, work in spans:
            length_ns = max(end_ns - start_ns, 1)
            so_far += work * np.clip((edges_ns - start_ns) / length_ns, 0.0, 1.0)
        seconds = np.diff(edges_ns) / NS_PER_S
        blocks += list(zip(np.diff(so_far).tolist(), seconds.tolist(), strict=True))
    return blocks


def prompt_tokens(timeline: Timeline) -> float:
    """Return a request's prompt tokens, as the server counts them where it does."""
    told = timeline.usage.input_tokens
    return float(told if told is not None else timeline.tags.get("prompt_tokens", 0))
