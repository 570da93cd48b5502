"""Into how many chunks an engine cut a prompt, and its token budget, from the steps of the streams beside.

A step that holds part of a prompt takes longer than one that only decodes. A prompt's last chunk is the
step of its first token; the chunks before it are the longer steps right before that one. With n chunks of
at most b tokens, one of them for each running stream, a prompt of T tokens tells that b lies between
(T + streams in n steps) / n and (T + streams in n - 1 steps) / (n - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.steps import UNKNOWN_NS, Counts, Refusal, StepSeries
from phasemeter.core.timeline import Timeline

if TYPE_CHECKING:
    import numpy.typing as npt

FEWEST_PROMPT_TOKENS = 64
"""Shorter prompts hardly lengthen a step."""

FEWEST_DECODES = 2
"""Streams beside a prompt, at the median of its steps, that its chunks can be seen by."""

MOST_BESIDE = 0.1
"""Other prompts at the same time may have this share of a prompt's tokens; with more it is left out."""

LONGER = 1.5
"""Some step of a prompt is this many times as long as those without prompts, or its chunks are not told."""

FEWEST_OBSERVATIONS = 3
LEAST_AGREEING_SHARE = 0.5

_STEPS_BEFORE = 15
_FEWEST_BEFORE = 3


@dataclass(frozen=True, slots=True)
class ChunkCount:
    """The chunks of one prompt.

    Attributes:
        request_id: Its request.
        prompt_tokens: Tokens that were computed, those read from a cache left out.
        tokens_beside: Tokens of other prompts at the same time.
        steps: Numbers of the steps that held a chunk, in the series.
        decodes: Tokens of running streams in each of them.
        decode_only_ns: Median of the steps without prompts right before.
    """

    request_id: str
    prompt_tokens: int
    tokens_beside: int
    steps: range
    decodes: tuple[int, ...]
    decode_only_ns: float

    @property
    def chunks(self) -> int:
        """How many there were."""
        return len(self.steps)

    def budget(self) -> tuple[int, int | None]:
        """Return the least and the greatest token budget that give this count; None for no limit."""
        chunks = self.chunks
        least = -(-(self.prompt_tokens + sum(self.decodes)) // chunks)
        if chunks == 1:
            return least, None
        whole = self.prompt_tokens + self.tokens_beside + sum(self.decodes[:-1])
        return least, (whole - 1) // (chunks - 1)


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The tokens that an engine computes in a step, as an interval.

    Attributes:
        at_least: Smallest budget that fits the observations.
        at_most: Largest one; None where no prompt was cut, so that nothing bounds it.
        agreeing: Prompts whose count lies within.
        observations: Prompts whose chunks were counted.
    """

    at_least: int
    at_most: int | None
    agreeing: int
    observations: int


def count_chunks(series: StepSeries, timelines: Sequence[Timeline]) -> list[ChunkCount]:
    """Return the chunks of every prompt for which they can be told.

    Left out are prompts beside which too few streams ran, those that shared their steps with other
    prompts, and those whose steps were not longer than decoding alone.

    Args:
        series: The engine's steps.
        timelines: The responses that they were told from.
    """
    windows = _windows(series, timelines)
    alone = np.flatnonzero(~_covered(series, windows) & (series.durations_ns != UNKNOWN_NS))
    counts = []
    for number, window in enumerate(windows):
        if window.prompt_tokens >= FEWEST_PROMPT_TOKENS:
            beside = _tokens_beside(windows, number)
            count = _count(series, window, beside, alone)
            if count is not None:
                counts.append(count)
    return counts


def prompt_steps(series: StepSeries, timelines: Sequence[Timeline]) -> npt.NDArray[np.bool_]:
    """Return for each step whether some prompt had been sent and had no first token before it."""
    return _covered(series, _windows(series, timelines))


def _covered(series: StepSeries, windows: Sequence[_Window]) -> npt.NDArray[np.bool_]:
    prefilling = np.zeros(series.ends_ns.size + 1, dtype=np.int64)
    for window in windows:
        prefilling[window.begin] += 1
        prefilling[window.last + 1] -= 1
    return np.cumsum(prefilling)[:-1] > 0


def _tokens_beside(windows: Sequence[_Window], number: int) -> int:
    """Return the tokens of other prompts between whose sending and first token this one's fell."""
    window = windows[number]
    tokens = 0
    for other in windows[number + 1 :]:
        if other.sent_ns >= window.first_ns:
            break
        tokens += other.prompt_tokens
    # Waits are bounded, so that not every earlier window has to be looked at.
    for other in reversed(windows[:number]):
        if other.latest_first_ns <= window.sent_ns:
            break
        if other.first_ns > window.sent_ns:
            tokens += other.prompt_tokens
    return tokens


def token_budget(counts: Sequence[ChunkCount]) -> TokenBudget | Refusal:
    """Return the budgets that fit most of the counts, or why none is told."""
    if len(counts) < FEWEST_OBSERVATIONS:
        return Refusal(
            f"the chunks of {len(counts)} prompts could be counted; {FEWEST_OBSERVATIONS} are needed"
        )
    bounds = [count.budget() for count in counts]
    ends = {low for low, _ in bounds} | {high + 1 for _, high in bounds if high is not None}
    edges: list[int | None] = [*sorted(ends), None]
    best = TokenBudget(0, None, 0, len(counts))
    for low, after in pairwise(edges):
        assert low is not None
        agreeing = sum(least <= low and (most is None or low <= most) for least, most in bounds)
        if agreeing > best.agreeing:
            best = TokenBudget(low, None if after is None else after - 1, agreeing, len(counts))
    if best.agreeing < LEAST_AGREEING_SHARE * len(counts):
        return Refusal(
            f"no token budget fits more than {best.agreeing} of the {len(counts)} prompts whose chunks "
            "were counted"
        )
    return best


def prompt_tokens_of(timeline: Timeline) -> int | None:
    """Return how many prompt tokens the server computed, as far as it tells; None where unknown."""
    tokens = timeline.usage.input_tokens
    return None if tokens is None else tokens - (timeline.usage.cached_input_tokens or 0)


@dataclass(frozen=True, slots=True)
class _Window:
    """A prompt between its sending and its first token, and the steps that ended then."""

    request_id: str
    prompt_tokens: int
    sent_ns: int
    first_ns: int
    begin: int
    last: int
    latest_first_ns: int
    """Latest first token of this prompt and all that were sent before it."""


def _windows(series: StepSeries, timelines: Sequence[Timeline]) -> list[_Window]:
    windows: list[_Window] = []
    latest_ns = 0
    for timeline in sorted(timelines, key=lambda timeline: timeline.sent_ns or 0):
        tokens, sent_ns = prompt_tokens_of(timeline), timeline.sent_ns
        first_ns = timeline.first_token_ns
        # With several legs the prompt was computed by another engine.
        if not tokens or sent_ns is None or first_ns is None or timeline.legs:
            continue
        begin, last = series.step_of(sent_ns) + 1, series.step_of(first_ns)
        if begin <= last:
            latest_ns = max(latest_ns, first_ns)
            request_id = timeline.request_id
            windows.append(_Window(request_id, tokens, sent_ns, first_ns, begin, last, latest_ns))
    return windows


def _count(
    series: StepSeries,
    window: _Window,
    beside: int,
    alone: Counts,
) -> ChunkCount | None:
    begin, last = window.begin, window.last
    durations_ns = series.durations_ns[begin : last + 1]
    decodes = series.decodes[begin : last + 1]
    if (durations_ns == UNKNOWN_NS).any() or np.median(decodes) < FEWEST_DECODES:
        return None
    if beside > MOST_BESIDE * window.prompt_tokens:
        return None
    usual_ns = _decode_only_ns(series, begin, alone)
    if usual_ns is None:
        return None
    chunks = _longer_at_the_end(durations_ns.tolist(), usual_ns)
    if chunks is None:
        return None
    steps = range(last + 1 - chunks, last + 1)
    return ChunkCount(
        window.request_id,
        window.prompt_tokens,
        beside,
        steps,
        tuple(series.decodes[steps.start : steps.stop].tolist()),
        usual_ns,
    )


def _decode_only_ns(series: StepSeries, begin: int, alone: Counts) -> float | None:
    """Return the median of the latest steps before one that held no prompt."""
    until = int(np.searchsorted(alone, begin))
    latest = series.durations_ns[alone[max(until - _STEPS_BEFORE, 0) : until]]
    return float(np.median(latest)) if latest.size >= _FEWEST_BEFORE else None


def _longer_at_the_end(durations_ns: Sequence[int], usual_ns: float) -> int | None:
    """Return how many steps at the end hold a part of the prompt, the last one always; None if unclear.

    Going back from the last step, each is compared with the chunks after it: attention makes later
    chunks longer, and a step that something else held up is not as long as a chunk.
    """
    *before, last = durations_ns
    longer = [one for one in before if one > LONGER * usual_ns]
    if not longer and last > LONGER * usual_ns:
        longer = [last]
    if not longer:
        return None if before else 1
    chunks: list[int] = []
    for one in reversed(before):
        usual_chunk_ns = min(median(longer), median(chunks[-3:] or longer))
        if one < (usual_ns + usual_chunk_ns) / 2:
            break
        chunks.append(one)
    return len(chunks) + 1
