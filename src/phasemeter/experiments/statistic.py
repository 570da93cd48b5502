"""Statistics that are compared between two sides of an experiment, each with its blocks and its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.bootstrap import Quantile, RatioInterval, ratio_interval
from phasemeter.experiments.blocks import Stretch, gap_blocks, token_blocks, ttft_blocks
from phasemeter.experiments.widening import widened

if TYPE_CHECKING:
    from phasemeter.experiments.blocks import Blocks


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic of one class.

    Attributes:
        name: Last part of a factor's name.
        words: The same in words.
        cut: Cuts responses into blocks of samples.
        quantile: Which quantile of the samples; None for their mean.
        samples_needed: With fewer samples on a side no interval is given: a quantile near the end of a
            small sample is nearly its maximum, and a bootstrap interval of that covers too little.
            None where there is never an interval.
    """

    name: str
    words: str
    cut: Callable[[Sequence[Stretch]], Blocks]
    quantile: float | None
    samples_needed: int | None

    def ratio(
        self, of: Sequence[Stretch], against: Sequence[Stretch], *, paired: bool
    ) -> RatioInterval:
        """Return the ratio of the statistic between two sides.

        Args:
            of: The compared side.
            against: The reference side.
            paired: Both sides met the same arrivals.
        """
        statistic = np.mean if self.quantile is None else Quantile(self.quantile)
        first, second = self.cut(of), self.cut(against)
        if paired:
            both = sorted(first.keys() & second.keys())
            first = {key: first[key] for key in both}
            second = {key: second[key] for key in both}
        a, b = list(first.values()), list(second.values())
        ratio = ratio_interval(a, b, statistic, paired=paired)
        fewest = min(sum(block.size for block in side) for side in (a, b))
        if self.samples_needed is None or fewest < self.samples_needed:
            return RatioInterval(ratio.value, None, None)
        return widened(ratio, first, second)


GAPS = (
    Statistic("gap_p50", "gap p50", gap_blocks, 0.5, 50),
    Statistic("gap_p99", "gap p99", gap_blocks, 0.99, 200),
    Statistic("gap_max", "longest gap", gap_blocks, 1.0, None),
)
TTFTS = (
    Statistic("ttft_p50", "TTFT p50", ttft_blocks, 0.5, 20),
    Statistic("ttft_p90", "TTFT p90", ttft_blocks, 0.9, 50),
    Statistic("ttft_p99", "TTFT p99", ttft_blocks, 0.99, 200),
)
THROUGHPUT = Statistic("throughput", "output tokens per second", token_blocks, None, 8)
