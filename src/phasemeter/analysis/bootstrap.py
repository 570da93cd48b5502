"""Confidence intervals of ratios by the percentile bootstrap over whole blocks.

A block is one request or one stretch of time with all its samples. Gaps within a stream hang together,
so single gaps are never resampled: an interval from them would be too narrow (Efron and Tibshirani, An
Introduction to the Bootstrap, 1993, chapter 8; Kuensch 1989 for blocks).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Block = npt.NDArray[np.float64]
    Statistic = Callable[[Block], float]

CONFIDENCE = 0.95

MIN_BLOCKS = 5
"""With fewer blocks that hold samples the draws are too much alike for an interval."""


class RatioInterval(NamedTuple):
    """A ratio and its 95 % interval.

    Attributes:
        value: The ratio; None where a side is empty or the divisor is 0.
        lo: Lower bound; None where there is no ratio or fewer than `MIN_BLOCKS` blocks.
        hi: Upper bound, likewise.
    """

    value: float | None
    lo: float | None
    hi: float | None

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Both bounds; None without them."""
        return None if self.lo is None or self.hi is None else (self.lo, self.hi)


@dataclass(frozen=True, slots=True)
class Quantile:
    """The smallest sample that at least a share q of all samples does not exceed (nearest rank).

    Attributes:
        q: Share, 0 < q <= 1; 1 is the maximum.
    """

    q: float

    def __call__(self, samples: Block) -> float:
        """Return the quantile of a non-empty array."""
        rank = max(math.ceil(self.q * samples.size), 1)
        return float(np.partition(samples, rank - 1)[rank - 1])


def ratio_interval(
    a_blocks: Sequence[npt.NDArray[np.int64] | npt.NDArray[np.float64]],
    b_blocks: Sequence[npt.NDArray[np.int64] | npt.NDArray[np.float64]],
    statistic: Statistic,
    *,
    paired: bool = False,
    resamples: int = 1000,
    seed: int = 0,
) -> RatioInterval:
    """Return statistic(all of a) / statistic(all of b) with a 95 % bootstrap interval.

    Args:
        a_blocks: Samples of the compared side, one array a block.
        b_blocks: Samples of the reference side.
        statistic: Takes pooled samples to one number; `Quantile` is fast.
        paired: The n-th block of a goes with the n-th of b (the same request, the same second of one
            schedule): both are drawn together, so that what the two have in common cancels out.
            Without pairs empty blocks are dropped.
        resamples: How often blocks are drawn anew.
        seed: Seed of the draws: same input and seed, same interval.

    Raises:
        ValueError: If paired blocks are not as many on each side.
    """
    if paired and len(a_blocks) != len(b_blocks):
        msg = f"paired blocks must be as many on each side, got {len(a_blocks)} and {len(b_blocks)}"
        raise ValueError(msg)
    a = [block.astype(np.float64) for block in a_blocks if paired or block.size]
    b = [block.astype(np.float64) for block in b_blocks if paired or block.size]
    if not any(block.size for block in a) or not any(block.size for block in b):
        return RatioInterval(None, None, None)
    divisor = statistic(np.concatenate(b))
    if divisor == 0:
        return RatioInterval(None, None, None)
    value = statistic(np.concatenate(a)) / divisor
    if _filled(a, b, paired=paired) < MIN_BLOCKS:
        return RatioInterval(value, None, None)
    a_seed, b_seed = np.random.SeedSequence(seed).spawn(2)
    if paired:
        b_seed = a_seed  # the same draws on both sides
    numerators = np.fromiter(_resample(a, statistic, resamples, a_seed), dtype=np.float64)
    divisors = np.fromiter(_resample(b, statistic, resamples, b_seed), dtype=np.float64)
    return _with_interval(value, numerators, divisors)


def _filled(a: Sequence[Block], b: Sequence[Block], *, paired: bool) -> int:
    """Return how many blocks hold samples: pairs with both sides, else those of the poorer side."""
    if paired:
        return sum(bool(one.size and other.size) for one, other in zip(a, b, strict=True))
    return min(sum(bool(block.size) for block in side) for side in (a, b))


def _resample(
    blocks: Sequence[Block],
    statistic: Statistic,
    resamples: int,
    seed: np.random.SeedSequence,
) -> Iterator[float]:
    """Yield the statistic of blocks drawn with replacement; NaN for a draw without samples."""
    rng = np.random.default_rng(seed)
    if isinstance(statistic, Quantile):
        yield from _resample_quantile(blocks, statistic.q, resamples, rng)
        return
    for _ in range(resamples):
        drawn = rng.integers(len(blocks), size=len(blocks))
        pooled = np.concatenate([blocks[index] for index in drawn])
        yield statistic(pooled) if pooled.size else math.nan


def _resample_quantile(
    blocks: Sequence[Block], q: float, resamples: int, rng: np.random.Generator
) -> Iterator[float]:
    """Sort once; a draw is then only a weight a block, and the quantile a look-up."""
    pooled = np.concatenate(blocks)
    owner = np.repeat(np.arange(len(blocks)), [block.size for block in blocks])
    order = np.argsort(pooled, kind="stable")
    pooled, owner = pooled[order], owner[order]
    for _ in range(resamples):
        drawn = rng.integers(len(blocks), size=len(blocks))
        running = np.cumsum(np.bincount(drawn, minlength=len(blocks))[owner])
        rank = math.ceil(q * int(running[-1]))
        yield float(pooled[np.searchsorted(running, rank, side="left")]) if rank else math.nan


class Resampled(NamedTuple):
    """A statistic and its values over blocks drawn anew.

    Kept where one statistic is compared with several others: each comparison is then a division.

    Attributes:
        value: The statistic; None without samples.
        draws: Its values over the draws, NaN for a draw without samples; empty where there are fewer
            than `MIN_BLOCKS` blocks with samples.
    """

    value: float | None
    draws: Block

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the statistic, or None where there is none."""
        return interval_of(self.draws)

    def ratio(self, against: Resampled) -> RatioInterval:
        """Return this statistic over another one, that of independent samples, with its interval."""
        if self.value is None or not against.value:
            return RatioInterval(None, None, None)
        value = self.value / against.value
        if not self.draws.size or not against.draws.size:
            return RatioInterval(value, None, None)
        return _with_interval(value, self.draws, against.draws)


def resample(
    blocks: Sequence[npt.NDArray[np.int64] | npt.NDArray[np.float64]],
    quantiles: Sequence[float | None],
    *,
    seed: int,
    resamples: int = 1000,
) -> list[Resampled]:
    """Return statistics of all samples, each with its values over blocks drawn anew.

    Args:
        blocks: Samples, one array a block; empty ones are dropped.
        quantiles: Which quantiles; None stands for the mean.
        seed: Seed of the draws; sides that are compared need different ones.
        resamples: How often blocks are drawn anew.
    """
    filled = [block.astype(np.float64) for block in blocks if block.size]
    statistics: list[Statistic] = [_mean if q is None else Quantile(q) for q in quantiles]
    if not filled:
        return [Resampled(None, np.empty(0)) for _ in quantiles]
    pooled = np.concatenate(filled)
    values = [statistic(pooled) for statistic in statistics]
    if len(filled) < MIN_BLOCKS:
        return [Resampled(value, np.empty(0)) for value in values]
    return [
        Resampled(
            value,
            np.fromiter(
                _resample(filled, statistic, resamples, np.random.SeedSequence(seed)),
                dtype=np.float64,
            ),
        )
        for value, statistic in zip(values, statistics, strict=True)
    ]


def _mean(samples: Block) -> float:
    return float(np.mean(samples))


def _with_interval(value: float, numerators: Block, divisors: Block) -> RatioInterval:
    usable = divisors != 0
    interval = interval_of(numerators[usable] / divisors[usable])
    return RatioInterval(value, *(interval or (None, None)))


def interval_of(draws: Block, *, tests: int = 1) -> tuple[float, float] | None:
    """Return the 95 % percentile interval of draws, those without samples left out; None without any.

    Args:
        draws: One value a resample.
        tests: Of so many intervals this is one: it is widened so that 95 % holds for all of them together
            (Bonferroni).
    """
    usable = draws[np.isfinite(draws)]
    if not usable.size:
        return None
    tail = (1 - CONFIDENCE) / 2 / tests
    lo, hi = np.quantile(usable, [tail, 1 - tail])
    return float(lo), float(hi)
