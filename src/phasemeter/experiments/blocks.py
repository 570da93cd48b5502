"""Samples of an experiment cut into blocks, the units that a bootstrap may resample.

Gaps of streams that share an engine are correlated: one injected prompt stretches a gap of each of them.
So gaps and tokens are resampled by blocks of time, first-token times by request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.records import Mark
from phasemeter.core.clock import NS_PER_S
from phasemeter.core.timeline import Timeline
from phasemeter.metrics import Metric

if TYPE_CHECKING:
    import numpy.typing as npt

    Block = npt.NDArray[np.int64]

BLOCK_NS = NS_PER_S
"""Length of a time block."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The responses of one class during one phase of one run.

    Attributes:
        mark: The phase.
        timelines: The responses.
    """

    mark: Mark
    timelines: Sequence[Timeline]


def gap_blocks(stretches: Iterable[Stretch]) -> list[Block]:
    """Return the gaps in ns that ended within each stretch, one array for each second of it."""
    blocks: list[Block] = []
    for stretch in stretches:
        cells: list[list[int]] = [[] for _ in range(_cells(stretch.mark))]
        for timeline in stretch.timelines:
            for gap_ns, later in timeline.gaps():
                cell = (later.t_ns - stretch.mark.start_ns) // BLOCK_NS
                if 0 <= cell < len(cells) and later.t_ns < stretch.mark.end_ns:
                    cells[cell].append(gap_ns)
        blocks += [np.array(cell, dtype=np.int64) for cell in cells]
    return blocks


def token_rate_blocks(stretches: Iterable[Stretch]) -> list[Block]:
    """Return the tokens that arrived in each whole second of each stretch, one number an array.

    An event that does not tell its tokens counts as one.
    """
    blocks: list[Block] = []
    for stretch in stretches:
        tokens = [0] * ((stretch.mark.end_ns - stretch.mark.start_ns) // BLOCK_NS)
        for timeline in stretch.timelines:
            for event in timeline.events:
                cell = (event.t_ns - stretch.mark.start_ns) // BLOCK_NS
                if 0 <= cell < len(tokens):
                    tokens[cell] += event.tokens or 1
        blocks += [np.array([count], dtype=np.int64) for count in tokens]
    return blocks


def request_blocks(stretches: Iterable[Stretch], metric: Metric) -> dict[tuple[int, str], Block]:
    """Return a per-request metric's samples in ns, by (repeat, key of the request in the plan)."""
    return {
        (stretch.mark.repeat, plan_key(timeline)): np.fromiter(
            metric.samples(timeline), dtype=np.int64
        )
        for stretch in stretches
        for timeline in stretch.timelines
    }


def plan_key(timeline: Timeline) -> str:
    """Return what identifies a request within its plan, the same each time the plan is run.

    The driver makes identifiers of a salt, new each time, and this key.
    """
    return timeline.request_id.partition("-")[2]


def _cells(mark: Mark) -> int:
    return -(-(mark.end_ns - mark.start_ns) // BLOCK_NS)
