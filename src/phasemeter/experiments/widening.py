"""Widens bootstrap intervals for what resampling blocks of time leaves out.

Percentile intervals from few blocks are too narrow, as is 1.96 where a t quantile belongs; and a machine
that drifts makes neighbouring blocks alike, so that there are fewer independent ones than blocks. Both are
made up for on a logarithmic scale: by the t quantile of as many blocks, and by the correlation of
neighbouring blocks' means, of the side where it is larger.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.bootstrap import CONFIDENCE, RatioInterval

if TYPE_CHECKING:
    from phasemeter.experiments.blocks import Blocks

_MOST_CORRELATION = 0.6
_Z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2)


def widened(ratio: RatioInterval, *sides: Blocks) -> RatioInterval:
    """Return a ratio with its interval widened.

    Args:
        ratio: The ratio, with an interval or without.
        sides: What it was worked out of; keys end in the number of the block where blocks have an
            order, and in a text where they have none.
    """
    value, lo, hi = ratio
    if value is None or lo is None or hi is None or min(value, lo, hi) <= 0:
        return ratio
    number = min(sum(bool(block.size) for block in side.values()) for side in sides)
    times = _t_quantile(number - 1) / _Z * math.sqrt(number / (number - 1))
    times *= max(_inflation(side) for side in sides)
    return RatioInterval(value, value * (lo / value) ** times, value * (hi / value) ** times)


def _t_quantile(freedom: int) -> float:
    """Return the t quantile of the confidence, by its expansion around the normal one."""
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _inflation(side: Blocks) -> float:
    """Return by how much the correlation of neighbouring blocks widens an interval: 1 or more.

    With a correlation r from each block to the next the variance of their mean is (1 + r) / (1 - r)
    times that of as many independent ones; a handful of blocks tells r roughly, so it is held at 0.6.
    """
    runs: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for (repeat, users, number), block in side.items():
        if isinstance(number, int) and block.size:
            runs[repeat, users][number] = float(block.mean())
    beside: list[tuple[float, float]] = []
    variances: list[float] = []
    for members in runs.values():
        mean = sum(members.values()) / len(members)
        variances += [(one - mean) ** 2 for one in members.values()]
        beside += [
            (one - mean, members[number + 1] - mean)
            for number, one in members.items()
            if number + 1 in members
        ]
    spread = float(np.mean(variances)) if variances else 0.0
    if not spread or not beside:
        return 1.0
    correlation = sum(a * b for a, b in beside) / len(beside) / spread
    # Of n blocks it comes out too low by about 1/n of itself and more: their own mean is taken off.
    correlation += 1 / max(len(variances) / len(runs), 1)
    held = min(max(correlation, 0.0), _MOST_CORRELATION)
    return math.sqrt((1 + held) / (1 - held))
