"""What condition inject showed on one topology: its cells, its effects, and the intervals that decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.bootstrap import Quantile, ratio_interval
from phasemeter.analysis.injection import Cell, Effect, spread_of, stalls_of
from phasemeter.analysis.ramp_levels import Estimate
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Timeline
from phasemeter.experiments.blocks import BLOCK_NS
from phasemeter.experiments.exposure import (
    Injection,
    Overlap,
    exposed_share,
    injections_of,
    overlap_of,
    stalled_ns,
)
from phasemeter.experiments.inject_run import InjectRun
from phasemeter.experiments.longest_gap import (
    Compared,
    compared,
    exposed_p99_factor,
    longest_gap_factor,
)
from phasemeter.experiments.lost_time import losses_of, lost_ms_per_token
from phasemeter.experiments.recovery import recovery_of
from phasemeter.experiments.widening import widened
from phasemeter.metrics.fluidity import deadlines

if TYPE_CHECKING:
    import numpy.typing as npt

    from phasemeter.experiments.blocks import Blocks

    Times = npt.NDArray[np.int64]

PHASES = ("baseline", "inject", "recovery")
DEADLINE_FACTOR = 2.0
MIN_INJECTIONS = 5
"""Injections that must have overlapped the background for anything to be said."""


@dataclass(frozen=True, slots=True)
class Injected:
    """What condition inject showed on one topology.

    Attributes:
        overlap: How far injections and background overlapped.
        apart: Episodes of injections that overlapped the background: those whose times overlap are one.
        cells: The grid.
        effects: All injections, by number of background users.
        longest_gap: The longest gap beside an injection against undisturbed time, over all cells.
        by_length: The same by prompt length, for those with 5 episodes (over all lengths, by 0, where none
            has them); intervals hold for all of them together. The verdict rests on these.
    """

    overlap: Overlap
    apart: int
    cells: tuple[Cell, ...]
    effects: tuple[Effect, ...]
    longest_gap: Estimate
    by_length: Mapping[int, Estimate]


def injected_on(
    arm: str, runs: Sequence[InjectRun], alone_ns: Mapping[int, Sequence[int]]
) -> Injected:
    """Return what the runs of condition inject showed on a topology.

    Args:
        arm: Its name.
        runs: The runs.
        alone_ns: Times to first token of prompts that were sent alone, by length.
    """
    found = {id(run): injections_of(run) for run in runs}
    injections = [one for run in runs for one in found[id(run)]]
    cells: dict[tuple[int, int, int], list[Injection]] = {}
    for one in sorted(injections, key=_cell_of):
        cells.setdefault(_cell_of(one), []).append(one)
    sides = {key: compared(members, injections) for key, members in cells.items()}
    return Injected(
        overlap=overlap_of(arm, injections),
        apart=_apart(one for one in injections if one.overlapped),
        cells=tuple(
            _cell(arm, key, members, sides[key], runs, alone_ns.get(key[1], ()))
            for key, members in cells.items()
        ),
        effects=tuple(
            _effect(arm, users, list(members), found)
            for users, members in groupby(sorted(runs, key=_users), key=_users)
        ),
        longest_gap=longest_gap_factor(list(sides.values())),
        by_length=_by_length(sides),
    )


def _users(run: InjectRun) -> int:
    return run.users


def _apart(injections: Iterable[Injection]) -> int:
    """Return how many episodes some injections make."""
    return len({one.key for one in injections})


def _cell_of(one: Injection) -> tuple[int, int, int]:
    return one.run.users, one.prompt_tokens, one.together


def _by_length(sides: Mapping[tuple[int, int, int], Compared]) -> dict[int, Estimate]:
    lengths: dict[int, list[Compared]] = {}
    for (_, prompt_tokens, _), side in sides.items():
        lengths.setdefault(prompt_tokens, []).append(side)
    enough = {
        tokens: members
        for tokens, members in sorted(lengths.items())
        if _apart(one for member in members for one in member.injections) >= MIN_INJECTIONS
    } or {0: list(sides.values())}
    return {
        tokens: longest_gap_factor(members, tests=len(enough)) for tokens, members in enough.items()
    }


def _cell(
    arm: str,
    key: tuple[int, int, int],
    injections: Sequence[Injection],
    side: Compared,
    runs: Sequence[InjectRun],
    alone_ns: Sequence[int],
) -> Cell:
    users, prompt_tokens, together = key
    mine = [run for run in runs if run.users == users]
    ttft_ns = np.array(
        [
            one.events[0].t_ns - one.sent_ns
            for injection in injections
            for one in injection.prompts
            if one.sent_ns is not None
        ],
        dtype=np.int64,
    )
    waits = ratio_interval(
        list(ttft_ns.reshape(-1, 1)),
        list(np.array(alone_ns, dtype=np.int64).reshape(-1, 1)),
        Quantile(0.5),
    )
    longest_ns = [one.longest_ns for one in side.injections]
    return Cell(
        arm=arm,
        users=users or None,
        prompt_tokens=prompt_tokens,
        together=together,
        injections=len(injections),
        overlapped=len(side.injections),
        exposed_gap_ms=spread_of(_joined([one.gaps.lengths_ns for one in side.injections])),
        baseline_gap_ms=spread_of(_phase_gaps(mine, "baseline")),
        recovery_gap_ms=spread_of(_phase_gaps(mine, "recovery")),
        undisturbed=side.where,
        longest_gap_p50_ms=float(np.median(longest_ns)) / NS_PER_MS if longest_ns else None,
        longest_gap_factor=longest_gap_factor([side]),
        exposed_gap_p99_factor=exposed_p99_factor(side),
        ttft_p50_ms=_median_ms(ttft_ns),
        ttft_alone_p50_ms=_median_ms(np.array(alone_ns, dtype=np.int64)),
        ttft_factor=Estimate(waits.value, waits.ci95),
    )


def _effect(
    arm: str, users: int, runs: Sequence[InjectRun], found: Mapping[int, Sequence[Injection]]
) -> Effect:
    injections = [one for run in runs for one in found[id(run)]]
    losses = losses_of(injections)
    per_token, lost_from = lost_ms_per_token(losses)
    deadline_ns = _deadline_ns(runs)
    return Effect(
        arm=arm,
        users=users or None,
        decoding={phase: _mean([run.mean_decoding(phase) for run in runs]) for phase in PHASES},
        most_streams=max(run.most_streams() for run in runs),
        injected=sum(len(run.injected) for run in runs),
        injections=len(injections),
        overlapped=sum(one.overlapped for one in injections),
        exposed_share=exposed_share(runs, injections),
        lost_ms_per_prompt_token=per_token,
        lost_from=lost_from,
        lost_share=_lost_share(runs),
        pace=_pace(runs, injections),
        stalls={
            phase: stalls_of(
                np.array([length for run in runs for length in stalled_ns(run, phase)], np.int64),
                _phase_gaps(runs, phase).size,
            )
            for phase in PHASES
        },
        gap_deadline_ms=None if deadline_ns is None else deadline_ns / NS_PER_MS,
        deadlines_missed={phase: _missed(runs, phase, deadline_ns) for phase in PHASES},
        recovery=recovery_of(injections),
    )


def _phase_gaps(runs: Sequence[InjectRun], phase: str) -> Times:
    return _joined(
        [run.phase_gaps(phase, instance).lengths_ns for run in runs for instance in run.gaps]
    )


def _joined(parts: Sequence[Times]) -> Times:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _median_ms(lengths_ns: Times) -> float | None:
    return float(np.median(lengths_ns)) / NS_PER_MS if lengths_ns.size else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _lost_share(runs: Sequence[InjectRun]) -> Estimate:
    """Return 1 - mean gap of the baseline / mean gap under injection, by blocks of time."""
    of, against = (_blocks(runs, phase) for phase in ("inject", "baseline"))
    ratio = ratio_interval(list(of.values()), list(against.values()), np.mean)
    ratio = widened(ratio, of, against)
    if ratio.value is None:
        return Estimate(None, None)
    interval = None if ratio.ci95 is None else (1 - 1 / ratio.ci95[0], 1 - 1 / ratio.ci95[1])
    return Estimate(float(1 - 1 / ratio.value), interval)


def _pace(runs: Sequence[InjectRun], injections: Sequence[Injection]) -> float | None:
    """Return the median of the gaps that no injection overlaps over the median of the baseline's."""
    beside: list[Times] = []
    for run in runs:
        for instance in run.gaps:
            gaps = run.phase_gaps("inject", instance)
            is_free = np.ones(gaps.ends_ns.size, dtype=bool)
            for one in injections:
                if one.run is run and one.instance == instance:
                    is_free &= (gaps.ends_ns <= one.start_ns) | (gaps.starts_ns >= one.end_ns)
            beside.append(gaps.lengths_ns[is_free])
    free_ns, baseline_ns = _joined(beside), _phase_gaps(runs, "baseline")
    if not free_ns.size or not baseline_ns.size:
        return None
    return float(np.median(free_ns) / np.median(baseline_ns))


def _blocks(runs: Sequence[InjectRun], phase: str) -> Blocks:
    return {
        (place, 0, number): block
        for place, run in enumerate(runs)
        for number, block in enumerate(_time_blocks(run, phase))
    }


def _time_blocks(run: InjectRun, phase: str) -> list[Times]:
    mark = run.marks.get(phase)
    if mark is None:
        return []
    return [
        _joined(
            [
                gaps.ended_within(start_ns, min(start_ns + BLOCK_NS, mark.end_ns)).lengths_ns
                for gaps in run.gaps.values()
            ]
        )
        for start_ns in range(mark.start_ns, mark.end_ns, BLOCK_NS)
    ]


def _deadline_ns(runs: Sequence[InjectRun]) -> int | None:
    baseline_ns = _phase_gaps(runs, "baseline")
    return round(DEADLINE_FACTOR * float(np.median(baseline_ns))) if baseline_ns.size else None


def _missed(runs: Sequence[InjectRun], phase: str, deadline_ns: int | None) -> float | None:
    """Return the share of the background's token deadlines missed in a phase, over all streams."""
    if deadline_ns is None:
        return None
    met = missed = 0
    for run in runs:
        mark = run.marks.get(phase)
        for timeline in run.background if mark is not None else ():
            cut = _cut(timeline, mark.start_ns, mark.end_ns) if mark is not None else None
            counts = None if cut is None else deadlines(cut, deadline_ns, deadline_ns)
            if counts is not None:
                met, missed = met + counts[0], missed + counts[1]
    return missed / (met + missed) if met + missed else None


def _cut(timeline: Timeline, start_ns: int, end_ns: int) -> Timeline | None:
    """Return a stream's events within a phase, as if it had begun with the first of them."""
    events = tuple(event for event in timeline.events if start_ns <= event.t_ns < end_ns)
    return replace(timeline, started_ns=events[0].t_ns, events=events) if events else None
