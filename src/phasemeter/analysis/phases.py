"""Picks responses and gaps out of an interference run by arm, condition, repeat and phase."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.records import Mark, RunRecords
from phasemeter.core.timeline import Outcome, Timeline

if TYPE_CHECKING:
    import numpy.typing as npt

INJECT = "inject"
INJECTED = "injected"


def injected_topologies(run: RunRecords) -> list[str]:
    """Return the arms that have an inject condition, in order of first appearance."""
    return list(dict.fromkeys(mark.arm for mark in run.marks if mark.condition == INJECT))


def marks_of(run: RunRecords, arm: str, condition: str, phase: str | None = None) -> list[Mark]:
    """Return the marks of an arm under a condition, of one phase or of all."""
    return [
        mark
        for mark in run.marks
        if (mark.arm, mark.condition) == (arm, condition) and phase in (None, mark.phase)
    ]


def timelines_of(
    run: RunRecords,
    arm: str,
    condition: str,
    repeat: int | None = None,
    users: int | None = None,
) -> list[Timeline]:
    """Return the responses of an arm under a condition, of one repeat or number of users or of all."""
    wanted = {"arm": arm, "condition": condition}
    if repeat is not None:
        wanted["repeat"] = str(repeat)
    if users is not None:
        wanted["users"] = str(users)
    return [timeline for timeline in run.timelines if wanted.items() <= dict(timeline.tags).items()]


def is_injected(timeline: Timeline) -> bool:
    """Tell an injected prompt from a background stream."""
    return timeline.tags.get("class") == INJECTED


def background_gaps_ns(run: RunRecords, arm: str, phase: str) -> npt.NDArray[np.int64]:
    """Return the gaps of an arm's ok background streams that ended within a phase of their repeat."""
    marks = marks_of(run, arm, INJECT, phase)
    gaps = [
        gap_ns
        for mark in marks
        for timeline in timelines_of(run, arm, INJECT, mark.repeat, mark.users)
        if not is_injected(timeline) and timeline.outcome is Outcome.OK
        for gap_ns in gaps_ended_within(timeline, (mark,))
    ]
    return np.array(gaps, dtype=np.int64)


def gaps_ended_within(timeline: Timeline, marks: Sequence[Mark]) -> Iterable[int]:
    """Yield the response's gaps in ns whose later event lies in one of the marks."""
    for gap_ns, later in timeline.gaps():
        if any(mark.start_ns <= later.t_ns < mark.end_ns for mark in marks):
            yield gap_ns
