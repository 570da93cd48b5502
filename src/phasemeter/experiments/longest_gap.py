"""The longest gap beside an injection against the longest in undisturbed time of the same length.

A span of time is likelier to meet a long gap than a short one, and the longer it is the longer the
longest gap that it meets, with or without injection. So quiet time is cut into spans as long as the
injections lasted, and compared is like with like: medians over injections and over spans. A median of
longest gaps is not moved by a single hiccup of the machine, which a maximum or a 99th percentile is.
Quiet is the time between injections, so that a machine that became slower or faster since the baseline did so
on both sides; the baseline itself where injections leave too little between them.

Injections whose times overlap are resampled together, and so are spans of one block of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasemeter.analysis.bootstrap import CONFIDENCE, MIN_BLOCKS, Quantile, ratio_interval
from phasemeter.analysis.ramp_levels import Estimate
from phasemeter.experiments.exposure import Injection
from phasemeter.experiments.quiet_time import spans_before, spans_between

if TYPE_CHECKING:
    import numpy.typing as npt

    from phasemeter.experiments.quiet_time import Block

    Times = npt.NDArray[np.int64]
    Values = npt.NDArray[np.float64]

_RESAMPLES = 1000
_MEDIAN = Quantile(0.5)
_P99_SAMPLES = 200
"""Fewer gaps than this on a side carry no 99th percentile."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Injections of one cell and the undisturbed spans that go with them.

    Attributes:
        injections: Those that overlapped the background for sure.
        spans: Gaps in ns of each undisturbed span, by block of time.
        where: The spans lie `between` injections or `before` them, in the baseline; None without any.
    """

    injections: tuple[Injection, ...]
    spans: tuple[Block, ...]
    where: Literal["between", "before"] | None

    @property
    def longest_ns(self) -> list[Times]:
        """The longest gap of each span, by block."""
        return [np.array([span.max() for span in block]) for block in self.spans]


def compared(injections: Sequence[Injection], all_injections: Sequence[Injection]) -> Compared:
    """Return one cell's injections with undisturbed spans of its runs.

    Args:
        injections: The cell's.
        all_injections: Those of all cells: what lies between them is quiet.
    """
    sure = tuple(one for one in injections if one.overlapped)
    if not sure:
        return Compared((), (), None)
    span_ns = max(int(np.median([one.end_ns - one.start_ns for one in sure])), 1)
    places = {(id(one.run), one.instance): (one.run, one.instance) for one in sure}.values()
    between = [
        spans for place in places for spans in spans_between(*place, all_injections, span_ns)
    ]
    if len(between) >= MIN_BLOCKS:
        return Compared(sure, tuple(between), "between")
    before = [spans for place in places for spans in spans_before(*place, span_ns)]
    return Compared(sure, tuple(before), "before" if before else None)


def longest_gap_factor(cells: Sequence[Compared], *, tests: int = 1) -> Estimate:
    """Return the median over injections of (longest gap / the median longest of its cell's spans).

    Args:
        cells: One or more cells; each injection is compared with its own cell's spans.
        tests: Of so many comparisons this is one: the interval is widened so that 95 % holds for all
            of them together (Bonferroni).

    Returns:
        The factor with its interval; without an interval where there are fewer than 5 injections
        apart from each other. Cells with fewer than 5 blocks of undisturbed time are left out; where
        all are such, the factor is of all and has no interval.
    """
    measured = [cell for cell in cells if cell.injections and cell.spans]
    # Injections that lasted nearly as long as the baseline leave too few spans to compare with.
    usable = [cell for cell in measured if len(cell.spans) >= MIN_BLOCKS] or measured
    if not usable:
        return Estimate(None, None)
    longest = [np.array([float(one.longest_ns) for one in cell.injections]) for cell in usable]
    alone = [_MEDIAN(np.concatenate(cell.longest_ns)) for cell in usable]
    value = _MEDIAN(np.concatenate([a / b for a, b in zip(longest, alone, strict=True)]))
    episodes: dict[tuple[int, str, int], int] = {}
    owner = np.array(
        [episodes.setdefault(one.key, len(episodes)) for cell in usable for one in cell.injections]
    )
    if len(episodes) < MIN_BLOCKS or min(len(cell.spans) for cell in usable) < MIN_BLOCKS:
        return Estimate(value, None)
    rng = np.random.default_rng(0)
    ratios = np.concatenate(
        [
            each / _medians_redrawn(cell.longest_ns, rng)[:, np.newaxis]
            for each, cell in zip(longest, usable, strict=True)
        ],
        axis=1,
    )
    draws = _weighted_medians(ratios, _times_drawn(len(episodes), rng)[:, owner])
    tail = (1 - CONFIDENCE) / 2 / tests
    lo, hi = np.quantile(draws, (tail, 1 - tail))
    return Estimate(value, (float(lo), float(hi)))


def _times_drawn(number: int, rng: np.random.Generator) -> Times:
    """Return, a row a resample, how often each of so many things was drawn."""
    return rng.multinomial(number, np.full(number, 1 / number), size=_RESAMPLES)


def _medians_redrawn(blocks: Sequence[Times], rng: np.random.Generator) -> Values:
    """Return the median of the pooled samples of each resample of blocks."""
    owner = np.repeat(np.arange(len(blocks)), [block.size for block in blocks])
    pooled = np.concatenate(blocks).astype(np.float64)
    weights = _times_drawn(len(blocks), rng)[:, owner]
    return _weighted_medians(np.broadcast_to(pooled, weights.shape), weights)


def _weighted_medians(values: Values, weights: Times) -> Values:
    """Return the nearest-rank median of each row, every value as often as its weight says."""
    order = np.argsort(values, axis=1, kind="stable")
    running = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    ranks = (running[:, -1:] + 1) // 2
    place = np.argmax(running >= ranks, axis=1)[:, np.newaxis]
    return np.take_along_axis(np.take_along_axis(values, order, axis=1), place, axis=1)[:, 0]


def exposed_p99_factor(cell: Compared) -> Estimate:
    """Return the p99 of the exposed gaps over the p99 of the gaps in undisturbed spans."""
    episodes: dict[tuple[int, str, int], list[Times]] = {}
    for one in cell.injections:
        episodes.setdefault(one.key, []).append(one.gaps.lengths_ns)
    exposed = [np.concatenate(gaps) for gaps in episodes.values()]
    spans = [np.concatenate(block) for block in cell.spans]
    ratio = ratio_interval(exposed, spans, Quantile(0.99))
    fewest = min(sum(block.size for block in side) for side in (exposed, spans))
    if ratio.lo is None or ratio.hi is None or fewest < _P99_SAMPLES:
        return Estimate(ratio.value, None)
    return Estimate(ratio.value, (ratio.lo, ratio.hi))
