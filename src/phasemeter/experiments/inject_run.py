"""One run of condition inject: its phases, and the background's gaps as arrays by instance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.records import Mark
from phasemeter.core.timeline import Timeline

if TYPE_CHECKING:
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps of the streams of one instance, by their ends.

    Attributes:
        starts_ns: When each began.
        ends_ns: When each ended, in ascending order.
        stream: Which stream each belongs to.
    """

    starts_ns: Times
    ends_ns: Times
    stream: Times

    @property
    def lengths_ns(self) -> Times:
        """How long each was."""
        return self.ends_ns - self.starts_ns

    def ended_within(self, start_ns: int, end_ns: int) -> Gaps:
        """Return those that ended in [start, end)."""
        first, last = np.searchsorted(self.ends_ns, (start_ns, end_ns), side="left")
        return Gaps(self.starts_ns[first:last], self.ends_ns[first:last], self.stream[first:last])

    def overlapping(self, start_ns: int, end_ns: int) -> Gaps:
        """Return those that overlap (start, end)."""
        first = int(np.searchsorted(self.ends_ns, start_ns, side="right"))
        kept = np.flatnonzero(self.starts_ns[first:] < end_ns) + first
        return Gaps(self.starts_ns[kept], self.ends_ns[kept], self.stream[kept])


@dataclass(frozen=True)
class InjectRun:
    """One run: a number of background users on a topology, once.

    Attributes:
        arm: Name of the topology.
        repeat: Which time.
        users: Background users, 0 where the run does not tell.
        marks: Its phases by name.
        background: The background's ok responses.
        injected: The injected prompts' ok responses.
    """

    arm: str
    repeat: int
    users: int
    marks: Mapping[str, Mark]
    background: Sequence[Timeline]
    injected: Sequence[Timeline]

    @cached_property
    def gaps(self) -> dict[str, Gaps]:
        """All gaps of the background, by instance."""
        found: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for number, timeline in enumerate(self.background):
            found[instance_of(timeline)] += [
                (later.t_ns - gap_ns, later.t_ns, number) for gap_ns, later in timeline.gaps()
            ]
        arrays = {
            instance: np.array(rows, dtype=np.int64).reshape(-1, 3)
            for instance, rows in found.items()
        }
        return {
            instance: Gaps(*rows[np.argsort(rows[:, 1], kind="stable")].T)
            for instance, rows in arrays.items()
        }

    def phase_gaps(self, phase: str, instance: str) -> Gaps:
        """Return the background's gaps on an instance that ended within a phase."""
        mark, gaps = self.marks.get(phase), self.gaps.get(instance)
        if mark is None or gaps is None:
            nothing = np.empty(0, dtype=np.int64)
            return Gaps(nothing, nothing, nothing)
        return gaps.ended_within(mark.start_ns, mark.end_ns)

    @cached_property
    def _decoding(self) -> dict[str, list[tuple[int, int]]]:
        """From when to when each background stream of an instance was decoding for sure.

        From half its usual gap after its first token on: streams that get their first tokens in one step
        were read together, and none of them decoded beside the other.
        """
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for one in self.background:
            gaps_ns = one.all_gaps_ns()
            if gaps_ns:
                begun_ns = one.events[0].t_ns + median_low(gaps_ns) // 2
                found[instance_of(one)].append((begun_ns, one.events[-1].t_ns))
        return found

    def decoding_at(self, t_ns: int, instance: str) -> int:
        """Return how many background streams of an instance were decoding before and after a time."""
        return sum(
            begun_ns < t_ns < end_ns for begun_ns, end_ns in self._decoding.get(instance, ())
        )

    def mean_decoding(self, phase: str) -> float | None:
        """Return how many background streams were decoding in a phase, on average over time."""
        mark = self.marks.get(phase)
        if mark is None or mark.end_ns <= mark.start_ns:
            return None
        covered_ns = sum(
            max(min(one.events[-1].t_ns, mark.end_ns) - max(one.events[0].t_ns, mark.start_ns), 0)
            for one in self.background
            if one.events
        )
        return covered_ns / (mark.end_ns - mark.start_ns)

    def most_streams(self) -> int:
        """Return how many streams of any kind were decoding at once at most."""
        turns = [
            turn
            for one in (*self.background, *self.injected)
            if one.events
            for turn in ((one.events[0].t_ns, 1), (one.events[-1].t_ns, -1))
        ]
        most = now = 0
        for _, change in sorted(turns):
            now += change
            most = max(most, now)
        return most


def instance_of(timeline: Timeline) -> str:
    """Return the instance that an answer streamed from; the driver tags each request with it."""
    return timeline.tags.get("instance", "")
