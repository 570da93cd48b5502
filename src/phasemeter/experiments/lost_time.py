"""Decode time that streams lose to injected prompts: in all, and per token of a prompt.

What a stream loses to an injection is the sum of its exposed gaps beyond as many gaps of the baseline's mean.
Injections whose times overlap are taken as one, with all their prompt tokens: which of them a gap was due
to cannot be told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasemeter.analysis.bootstrap import MIN_BLOCKS, interval_of
from phasemeter.analysis.ramp_levels import Estimate
from phasemeter.core.clock import NS_PER_MS
from phasemeter.experiments.exposure import Injection

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

_RESAMPLES = 1000
_LEAST_SPREAD = 1e-6  # token counts are whole: less is rounding


@dataclass(frozen=True, slots=True)
class Loss:
    """What the streams lost in one episode of injections.

    Attributes:
        prompt_tokens: Tokens of all its prompts.
        lost_ns: Decode time that each stream beside it lost, on average.
    """

    prompt_tokens: int
    lost_ns: float


def losses_of(injections: Sequence[Injection]) -> list[Loss]:
    """Return the losses of all episodes whose injections overlapped the background for sure."""
    episodes: dict[tuple[int, str, int], list[Injection]] = defaultdict(list)
    for one in injections:
        episodes[one.key].append(one)
    losses = []
    for members in episodes.values():
        run, instance = members[0].run, members[0].instance
        baseline_ns = run.phase_gaps("baseline", instance).lengths_ns
        if not baseline_ns.size or not all(one.overlapped for one in members):
            continue
        start_ns, end_ns = members[0].start_ns, max(one.end_ns for one in members)
        gaps = run.phase_gaps("inject", instance).overlapping(start_ns, end_ns)
        beyond_ns = float((gaps.lengths_ns - baseline_ns.mean()).sum())
        tokens = sum(one.prompt_tokens * len(one.prompts) for one in members)
        losses.append(Loss(tokens, beyond_ns / np.unique(gaps.stream).size))
    return losses


def lost_ms_per_token(losses: Sequence[Loss]) -> tuple[Estimate, Literal["slope", "ratio"] | None]:
    """Return the decode time in ms that a stream loses per prompt token, and how it was worked out.

    The slope of a straight line where prompts were of several lengths, so that what an injection costs
    whatever its length does not count; else the mean loss over the mean length. The interval is from
    resampled episodes; fewer than 5 of them tell nothing.
    """
    if len(losses) < MIN_BLOCKS:
        return Estimate(None, None), None
    tokens = np.array([one.prompt_tokens for one in losses], dtype=np.float64)
    lost_ms = np.array([one.lost_ns for one in losses]) / NS_PER_MS
    sloping = np.unique(tokens).size > 1
    value = float(_per_token(tokens, lost_ms, np.ones((1, tokens.size)), sloping=sloping)[0])
    how: Literal["slope", "ratio"] = "slope" if sloping else "ratio"
    number = len(losses)
    drawn = np.random.default_rng(0).multinomial(
        number, np.full(number, 1 / number), size=_RESAMPLES
    )
    values = _per_token(tokens, lost_ms, drawn.astype(np.float64), sloping=sloping)
    usable = values[np.isfinite(values)]
    if usable.size < _RESAMPLES / 2:  # hardly any two lengths differ
        return Estimate(value, None), how
    return Estimate(value, interval_of(usable)), how


def _per_token(tokens: Values, lost_ms: Values, weights: Values, *, sloping: bool) -> Values:
    """Return the figure of each row of weights; NaN where a row has no slope."""
    total = weights.sum(axis=1)
    mean_tokens: Values = weights @ tokens / total
    mean_lost: Values = weights @ lost_ms / total
    if not sloping:
        ratios: Values = mean_lost / mean_tokens
        return ratios
    beside = tokens - mean_tokens[:, np.newaxis]  # a row for each row of weights
    spread = (weights * beside * beside).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes: Values = np.where(
            spread > _LEAST_SPREAD, weights * beside @ lost_ms / spread, np.nan
        )
    return slopes
