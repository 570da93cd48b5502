"""The longest gap beside an injection against the longest in undisturbed time of the same length.

A span of time is likelier to meet a long gap than a short one, and the longer it is the longer the
longest gap that it meets, with or without injection. So quiet time is cut into spans as long as the
injections lasted, and compared is like with like. A median of longest gaps is not moved by a single
hiccup of the machine, which a maximum or a 99th percentile is. Quiet is the time between injections, so
that a machine that became slower or faster since the baseline did so on both sides; the baseline itself
where injections leave too little between them.

Injections whose times overlap are an episode: they met the same gaps, so all of them weigh as much together as
one that was alone (a machine that stands still for a second catches many, and would be counted as often), and
are resampled together, as spans of one block of time are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasemeter.analysis.bootstrap import MIN_BLOCKS, Quantile, interval_of, ratio_interval
from phasemeter.analysis.ramp_levels import Estimate
from phasemeter.experiments.exposure import Injection
from phasemeter.experiments.quiet_time import spans_before, spans_between

if TYPE_CHECKING:
    import numpy.typing as npt

    from phasemeter.experiments.quiet_time import Block

    Times = npt.NDArray[np.int64]
    Values = npt.NDArray[np.float64]
    Weights = Times | Values

_RESAMPLES = 1000
_ROUNDING = 1e-9
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
    lasted_ns = np.array([one.end_ns - one.start_ns for one in sure])
    shortest_first = np.argsort(lasted_ns, kind="stable")
    typical = _middle(_shares(_episodes(sure))[shortest_first])
    span_ns = max(int(lasted_ns[shortest_first][typical]), 1)
    places = {(id(one.run), one.instance): (one.run, one.instance) for one in sure}.values()
    between = [
        spans for place in places for spans in spans_between(*place, all_injections, span_ns)
    ]
    if len(between) >= MIN_BLOCKS:
        return Compared(sure, tuple(between), "between")
    before = [spans for place in places for spans in spans_before(*place, span_ns)]
    return Compared(sure, tuple(before), "before" if before else None)


def longest_gap_factor(cells: Sequence[Compared], *, tests: int = 1) -> Estimate:
    """Return the median of (longest gap beside an injection / longest gap in an undisturbed span).

    It is taken over all pairs of an injection and a span of the same cell (Hodges and Lehmann's estimate
    of a shift, 1963, of a ratio here): a median of each side alone jumps where gaps are of two kinds,
    long and short ones, about equally often.

    Args:
        cells: One or more cells.
        tests: Of so many comparisons this is one: the interval is widened so that 95 % holds for all
            of them together (Bonferroni).

    Returns:
        The factor with its interval; without an interval where there are fewer than 5 episodes. Cells
        with fewer than 5 blocks of undisturbed time are left out; where all are such, the factor is of
        all and has no interval.
    """
    measured = [cell for cell in cells if cell.injections and cell.spans]
    # Injections that lasted nearly as long as the baseline leave too few spans to compare with.
    usable = [cell for cell in measured if len(cell.spans) >= MIN_BLOCKS] or measured
    if not usable:
        return Estimate(None, None)
    pairs = _Pairs(usable)
    number = int(pairs.episodes.max()) + 1
    blocks = [len(cell.spans) for cell in usable]
    value = pairs.median(np.ones(number), [np.ones(each) for each in blocks])
    if number < MIN_BLOCKS or min(blocks) < MIN_BLOCKS:
        return Estimate(value, None)
    rng = np.random.default_rng(0)
    draws = [
        pairs.median(_drawn(number, rng), [_drawn(each, rng) for each in blocks])
        for _ in range(_RESAMPLES)
    ]
    return Estimate(value, interval_of(np.array(draws), tests=tests))


class _Pairs:
    """All pairs of an injection and a span of the same cell, sorted once by their ratio."""

    def __init__(self, cells: Sequence[Compared]) -> None:
        """Pair up some cells, each with injections and spans."""
        longest = [np.array([float(one.longest_ns) for one in cell.injections]) for cell in cells]
        alone = [np.concatenate(cell.longest_ns).astype(np.float64) for cell in cells]
        ratios = np.concatenate(
            [np.divide.outer(a, b).ravel() for a, b in zip(longest, alone, strict=True)]
        )
        self._order = np.argsort(ratios, kind="stable")
        self._ratios = ratios[self._order]
        self.episodes = _episodes([one for cell in cells for one in cell.injections])
        self._shares = _shares(self.episodes)
        self._ends = np.cumsum([each.size for each in longest])[:-1]
        self._blocks = [
            np.repeat(np.arange(len(cell.spans)), [len(block) for block in cell.spans])
            for cell in cells
        ]

    def median(self, episodes: Weights, blocks: Sequence[Weights]) -> float:
        """Return the ratio up to which half of the weight lies.

        Args:
            episodes: Weight of each episode.
            blocks: Weight of each block of undisturbed time, by cell.
        """
        of = np.split((episodes[self.episodes] * self._shares), self._ends)
        against = [each[owner] for each, owner in zip(blocks, self._blocks, strict=True)]
        weights = np.concatenate(
            [np.multiply.outer(a, b / b.sum()).ravel() for a, b in zip(of, against, strict=True)]
        )
        return float(self._ratios[_middle(weights[self._order])])


def _episodes(injections: Sequence[Injection]) -> Times:
    """Return the number of each injection's episode, from 0 on."""
    numbers: dict[tuple[int, str, int], int] = {}
    return np.array([numbers.setdefault(one.key, len(numbers)) for one in injections])


def _shares(episodes: Times) -> Values:
    """Return the weight of each injection: an episode's weigh 1 together."""
    return 1 / np.bincount(episodes)[episodes]


def _drawn(number: int, rng: np.random.Generator) -> Times:
    """Return how often each of so many things was drawn in as many draws."""
    return rng.multinomial(number, np.full(number, 1 / number))


def _middle(weights: Values) -> int:
    """Return the first place up to which half of the weight lies."""
    running = np.cumsum(weights)
    return int(np.argmax(running >= running[-1] / 2 - _ROUNDING))


def exposed_p99_factor(cell: Compared) -> Estimate:
    """Return the p99 of the exposed gaps over the p99 of the gaps in undisturbed spans."""
    episodes: dict[tuple[int, str, int], list[Times]] = {}
    for one in cell.injections:
        episodes.setdefault(one.key, []).append(one.gaps.lengths_ns)
    exposed = [np.concatenate(gaps) for gaps in episodes.values()]
    spans = [np.concatenate(block) for block in cell.spans]
    ratio = ratio_interval(exposed, spans, Quantile(0.99))
    fewest = min(sum(block.size for block in side) for side in (exposed, spans))
    return Estimate(ratio.value, ratio.ci95 if fewest >= _P99_SAMPLES else None)
