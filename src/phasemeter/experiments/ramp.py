"""What a ramp showed: latencies and throughput over the number of users, levels and topologies compared.

In a closed loop an answer's end decides when the next request comes, so levels and topologies do not meet
the same arrivals: everything is compared as independent samples. Of a request that was started while a
level got going, only what arrived in the measured time counts: its gaps and tokens, never its first token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from phasemeter.analysis.bootstrap import Resampled, resample
from phasemeter.analysis.finding import Arm, Factor
from phasemeter.analysis.ramp_levels import ALL, Estimate, RampClass, RampLevel, peak_of
from phasemeter.core.clock import NS_PER_MS, NS_PER_S
from phasemeter.experiments.blocks import BLOCK_NS, Stretch
from phasemeter.experiments.interference_arms import arm_of
from phasemeter.experiments.interference_records import InterferenceRecords, Part
from phasemeter.experiments.statistic import GAPS, THROUGHPUT, TTFTS, Statistic

if TYPE_CHECKING:
    from phasemeter.experiments.blocks import Blocks

_GAPS = tuple(one for one in GAPS if one.samples_needed is not None)
_BLOCK_S = BLOCK_NS / NS_PER_S


@dataclass(frozen=True, slots=True)
class Ramp:
    """A run's ramp.

    Attributes:
        levels: Each level of each topology.
        factors: Levels against the one with the fewest users, topologies against the first.
    """

    levels: tuple[RampLevel, ...]
    factors: tuple[Factor, ...]


def analyse_ramp(records: InterferenceRecords) -> Ramp:
    """Return what the levels of the ramp measured, and their factors; empty without a ramp."""
    seeds = count(1)
    measured: dict[str, dict[int, _Level]] = {}
    for topology in records.arms():
        levels = {
            users: _Level.of(records, part, seeds) for users, part in records.ramp(topology).items()
        }
        if levels:
            measured[topology] = levels
    told = {
        topology: [one.told(records, topology, users) for users, one in levels.items()]
        for topology, levels in measured.items()
    }
    factors: list[Factor] = []
    for topology, levels in measured.items():
        factors += _over_users(topology, levels, peak_of(told[topology]))
    first, *others = measured or [""]
    for other in others:
        factors += _over_topologies(first, measured[first], other, measured[other])
    return Ramp(tuple(level for levels in told.values() for level in levels), tuple(factors))


@dataclass(frozen=True, slots=True)
class _Level:
    """The resampled statistics of one level: by class and name, and of throughput."""

    part: Part
    classes: dict[str, dict[str, Resampled]]
    throughput: Resampled

    @classmethod
    def of(cls, records: InterferenceRecords, part: Part, seeds: Iterator[int]) -> _Level:
        names = records.classes(part)
        groups = {**{name: (name,) for name in names}, ALL: tuple(names)}
        classes = {}
        for name, members in groups.items():
            stretches = records.stretches(part, *members)
            started = [_started_within(stretch) for stretch in stretches]
            classes[name] = _drawn(TTFTS, started, next(seeds)) | _drawn(
                _GAPS, stretches, next(seeds)
            )
        whole = records.stretches(part, *names)
        return cls(part, classes, _drawn((THROUGHPUT,), whole, next(seeds))[THROUGHPUT.name])

    def told(self, records: InterferenceRecords, topology: str, users: int) -> RampLevel:
        arm = arm_of(records, self.part)
        whole = arm.throughput["whole"]
        return RampLevel(
            topology=topology,
            users=users,
            gpus=records.gpus.get(topology),
            issued=arm.requests["issued"],
            ok=arm.requests["ok"],
            classes={
                name: RampClass(
                    requests=_started(arm, name),
                    ttft_ms=_estimates(drawn, TTFTS),
                    gap_ms=_estimates(drawn, _GAPS),
                    e2e_p50_ms=_e2e_p50_ms(arm, name),
                )
                for name, drawn in self.classes.items()
            },
            output_tokens_per_s=_estimate(self.throughput, _BLOCK_S),
            requests_per_s=None if whole is None else whole["requests_per_s"],
        )


def _started_within(stretch: Stretch) -> Stretch:
    mark = stretch.mark
    inside = [one for one in stretch.timelines if mark.start_ns <= one.started_ns < mark.end_ns]
    return replace(stretch, timelines=inside)


def _drawn(
    statistics: Sequence[Statistic], stretches: Sequence[Stretch], seed: int
) -> dict[str, Resampled]:
    """Return statistics of the same samples; without draws where samples are too few."""
    blocks: Blocks = statistics[0].cut(stretches)
    samples = sum(block.size for block in blocks.values())
    drawn = resample(list(blocks.values()), [one.quantile for one in statistics], seed=seed)
    return {
        one.name: found
        if one.samples_needed is not None and samples >= one.samples_needed
        else Resampled(found.value, found.draws[:0])
        for one, found in zip(statistics, drawn, strict=True)
    }


def _estimates(drawn: dict[str, Resampled], statistics: Sequence[Statistic]) -> dict[str, Estimate]:
    """Return estimates in ms by the name of their percentile."""
    return {
        one.name.rpartition("_")[2]: _estimate(drawn[one.name], NS_PER_MS) for one in statistics
    }


def _estimate(found: Resampled, unit: float) -> Estimate:
    interval = found.interval()
    return Estimate(
        None if found.value is None else found.value / unit,
        None if interval is None else (interval[0] / unit, interval[1] / unit),
    )


def _started(arm: Arm, class_name: str) -> int:
    if class_name == ALL:
        return arm.requests["ok"]
    found = arm.classes.get(class_name)
    return 0 if found is None else found["requests"]["ok"]


def _e2e_p50_ms(arm: Arm, class_name: str) -> float | None:
    if class_name == ALL:
        return arm.metrics["e2e"]["p50"]
    found = arm.classes.get(class_name)
    return None if found is None else found["metrics"]["e2e"]["p50"]


def _over_users(topology: str, levels: dict[int, _Level], peak: RampLevel | None) -> list[Factor]:
    """Compare each level with the one of the fewest users, and the last one with the peak."""
    low, top = min(levels), max(levels)
    factors = []
    for users in levels:
        if users != low:
            prefix, versus = f"{topology}.ramp.u{users}_vs_u{low}", f"{low} users ({topology})"
            factors += _compared(prefix, levels[users], levels[low], f"at {users} users", versus)
    if peak is not None and peak.users not in (low, top):
        factors.append(
            Factor.from_ratio(
                f"{topology}.ramp.u{top}_vs_u{peak.users}.{THROUGHPUT.name}",
                levels[top].throughput.ratio(levels[peak.users].throughput),
                f"{THROUGHPUT.words} at {top} users ({topology})",
                f"{peak.users} users, where they are most ({topology})",
            )
        )
    return factors


def _over_topologies(
    first: str, reference: dict[int, _Level], other: str, levels: dict[int, _Level]
) -> list[Factor]:
    factors = []
    for users in levels:
        if users in reference:
            factors += _compared(
                f"{other}_vs_{first}.ramp.u{users}",
                levels[users],
                reference[users],
                f"at {users} users ({other})",
                f"as many users on {first}",
            )
    return factors


def _compared(prefix: str, of: _Level, against: _Level, where: str, versus: str) -> list[Factor]:
    """Compare two levels, class by class, then all together and by throughput."""
    factors = [
        Factor.from_ratio(
            f"{prefix}.{one.name}" if name == ALL else f"{prefix}.{name}.{one.name}",
            drawn[one.name].ratio(against.classes[name][one.name]),
            f"{one.words} of {name} requests {where}",
            versus,
        )
        for name, drawn in of.classes.items()
        if name in against.classes
        for one in (*TTFTS, *_GAPS)
    ]
    ratio = of.throughput.ratio(against.throughput)
    words = f"{THROUGHPUT.words} {where}"
    return [*factors, Factor.from_ratio(f"{prefix}.{THROUGHPUT.name}", ratio, words, versus)]
