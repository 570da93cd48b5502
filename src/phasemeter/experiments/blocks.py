"""Samples of an experiment cut into blocks, the units that a bootstrap may resample.

Gaps of streams that share an engine are correlated: one injected prompt stretches a gap of each of them.
So gaps and tokens are resampled by blocks of time, first-token times by request. Blocks have keys: where
two runs met the same arrivals, those of the same key are a pair. A key begins with the repeat and the number of
users of its run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.records import Mark
from phasemeter.analysis.throughput import token_arrivals
from phasemeter.core.clock import NS_PER_S
from phasemeter.core.timeline import Timeline
from phasemeter.metrics import TTFT

if TYPE_CHECKING:
    import numpy.typing as npt

    Blocks = dict[tuple[int, int, int | str], npt.NDArray[np.int64] | npt.NDArray[np.float64]]

BLOCK_NS = NS_PER_S // 2
"""Length of a time block: longer than an injected prompt holds up a stream, short enough for many."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The responses of one or more classes during one phase of one run.

    Attributes:
        mark: The phase.
        timelines: The responses.
    """

    mark: Mark
    timelines: Sequence[Timeline]


def gap_blocks(stretches: Iterable[Stretch]) -> Blocks:
    """Return the gaps in ns that ended within each block of time, by run and number of the block."""
    blocks: Blocks = {}
    for stretch in stretches:
        mark = stretch.mark
        cells: list[list[int]] = [[] for _ in range(-(-(mark.end_ns - mark.start_ns) // BLOCK_NS))]
        for timeline in stretch.timelines:
            for gap_ns, later in timeline.gaps():
                if mark.start_ns <= later.t_ns < mark.end_ns:
                    cells[(later.t_ns - mark.start_ns) // BLOCK_NS].append(gap_ns)
        for number, cell in enumerate(cells):
            blocks[*_run_of(mark), number] = np.array(cell, dtype=np.int64)
    return blocks


def token_blocks(stretches: Iterable[Stretch]) -> Blocks:
    """Return the output tokens that arrived in each whole block of time, one number an array.

    Tokens are counted as in `phasemeter.analysis.throughput`; nothing is returned where the responses
    do not tell how many there were.
    """
    blocks: Blocks = {}
    for stretch in stretches:
        mark = stretch.mark
        times_ns, tokens = token_arrivals(stretch.timelines)
        if np.isnan(tokens).any():
            return {}
        cells = (times_ns - mark.start_ns) // BLOCK_NS
        number = (mark.end_ns - mark.start_ns) // BLOCK_NS
        inside = (cells >= 0) & (cells < number)
        sums = np.bincount(cells[inside], weights=tokens[inside], minlength=number)
        blocks |= {(*_run_of(mark), cell): np.array([total]) for cell, total in enumerate(sums)}
    return blocks


def ttft_blocks(stretches: Iterable[Stretch]) -> Blocks:
    """Return the time to first token in ns of each request, by run and key in the plan."""
    return {
        (*_run_of(stretch.mark), plan_key(timeline)): np.fromiter(
            TTFT.samples(timeline), dtype=np.int64
        )
        for stretch in stretches
        for timeline in stretch.timelines
    }


def _run_of(mark: Mark) -> tuple[int, int]:
    return mark.repeat, mark.users or 0


def plan_key(timeline: Timeline) -> str:
    """Return what identifies a request within its plan, the same each time the plan is run.

    The driver makes identifiers of a salt, new each time, and this key.
    """
    return timeline.request_id.partition("-")[2]
