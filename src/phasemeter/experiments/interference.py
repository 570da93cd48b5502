"""The interference experiment: what it showed. A pure function of the run's records.

Factors are ratios of a statistic under load to the same statistic without it (or of one topology to
the other) with 95 % bootstrap intervals; names read `topology.condition.class.statistic`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.bootstrap import Quantile, RatioInterval, ratio_interval
from phasemeter.analysis.finding import Arm, Factor, Finding
from phasemeter.analysis.records import Mark, RunRecords
from phasemeter.analysis.summary import summarise_group
from phasemeter.analysis.throughput import throughput
from phasemeter.analysis.window import Window
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.record import Issued
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.experiments.blocks import Stretch, gap_blocks, request_blocks, token_rate_blocks
from phasemeter.experiments.exposure import Overlap, overlap_of
from phasemeter.experiments.interference_verdict import Evidence, judge, notes_on
from phasemeter.metrics import TTFT

if TYPE_CHECKING:
    pass

BACKGROUND, INJECTED = "background", "injected"
_ALONE = ("short_alone", "long_alone")
_MEASURED = ("inject", "measure")


def analyse(run: RunRecords) -> Finding:
    """Return the finding of an interference run, also of one that was cut off."""
    records = _Records(run)
    arms = records.arms()
    overlaps = {arm: _overlap(records, arm) for arm in arms}
    factors: list[Factor] = []
    for arm in arms:
        factors += _inject_factors(records, arm)
        factors += _mix_factors(records, arm)
    if len(arms) == 2:
        factors += _topology_factors(records, *arms)
    evidence = Evidence(
        factors={factor.name: factor for factor in factors},
        overlaps=overlaps,
        gpus=records.gpus,
        gap_p99_ms=_background_gap_p99_ms(records, arms),
        failed=records.failed,
        issued=records.issued,
    )
    return Finding(
        verdict=judge(evidence, arms),
        factors=tuple(factors),
        arms=tuple(_arm(records, arm, condition) for arm, condition in records.conditions()),
        exposures=tuple(one for overlap in overlaps.values() for one in overlap.exposures),
        notes=notes_on(evidence, arms),
    )


@dataclass(frozen=True, slots=True)
class _Statistic:
    """One statistic of one class, and how its samples are cut into blocks."""

    name: str
    quantile: float | None
    words: str

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
        if not self.name.startswith("ttft"):
            cut = gap_blocks if self.name.startswith("gap") else token_rate_blocks
            a, b = cut(of), cut(against)
            return ratio_interval(a, b, statistic, paired=paired and len(a) == len(b))
        first, second = request_blocks(of, TTFT), request_blocks(against, TTFT)
        if not paired:
            return ratio_interval(list(first.values()), list(second.values()), statistic)
        both = sorted(first.keys() & second.keys())
        return ratio_interval(
            [first[key] for key in both], [second[key] for key in both], statistic, paired=True
        )


_GAPS = (
    _Statistic("gap_p50", 0.5, "gap p50"),
    _Statistic("gap_p99", 0.99, "gap p99"),
    _Statistic("gap_max", 1.0, "longest gap"),
)
_TTFTS = (_Statistic("ttft_p50", 0.5, "TTFT p50"), _Statistic("ttft_p99", 0.99, "TTFT p99"))
_THROUGHPUT = _Statistic("throughput", None, "output tokens per second")
_ALL = (*_GAPS, *_TTFTS, _THROUGHPUT)


class _Records:
    """A run's responses by arm, condition, repeat and class.

    Only of conditions that were carried out to their end: what was in flight when a run was
    interrupted says nothing about the server.

    Attributes:
        issued: Requests issued.
        failed: Those of them that did not end ok.
        gpus: Accelerators (or cores) by topology.
    """

    def __init__(self, run: RunRecords) -> None:
        self._run = run
        self._groups: dict[tuple[str, str, str, str], list[Timeline]] = {}
        finished = {(mark.arm, mark.condition, str(mark.repeat)) for mark in run.marks}
        self.issued = sum(_run_of(request.tags) in finished for request in run.issued)
        self.failed = 0
        for timeline in run.timelines:
            key = _run_of(timeline.tags)
            if key not in finished:
                continue
            if timeline.outcome is Outcome.OK:
                self._groups.setdefault((*key, timeline.tags.get("class", "")), []).append(timeline)
            else:
                self.failed += 1
        target = run.manifest.get("target")
        gpus = target.get("gpus") if isinstance(target, dict) else None
        self.gpus: Mapping[str, int | None] = gpus if isinstance(gpus, dict) else {}

    def arms(self) -> list[str]:
        """Topologies in the order of the manifest, those that have been measured."""
        measured = list(dict.fromkeys(mark.arm for mark in self._run.marks))
        return (
            sorted(measured, key=list(self.gpus).index)
            if set(measured) <= set(self.gpus)
            else measured
        )

    def conditions(self) -> list[tuple[str, str]]:
        return list(
            dict.fromkeys((m.arm, m.condition) for m in sorted(self._run.marks, key=_order))
        )

    def stretches(self, arm: str, condition: str, phase: str, *classes: str) -> list[Stretch]:
        """The responses of one or more classes in a phase, one stretch a repeat."""
        return [
            Stretch(
                mark,
                [
                    timeline
                    for name in classes
                    for timeline in self._groups.get((arm, condition, str(mark.repeat), name), ())
                ],
            )
            for mark in self._run.marks
            if (mark.arm, mark.condition, mark.phase) == (arm, condition, phase)
        ]

    def group(self, arm: str, condition: str) -> tuple[list[Timeline], list[Issued]]:
        """Responses and started requests of one condition on one topology."""
        wanted = (arm, condition)
        run = self._run
        return (
            [t for t in run.timelines if (t.tags.get("arm"), t.tags.get("condition")) == wanted],
            [i for i in run.issued if (i.tags.get("arm"), i.tags.get("condition")) == wanted],
        )

    def windows(self, arm: str, condition: str) -> list[Window]:
        """The measured phases of one condition on one topology."""
        return [
            Window(mark.start_ns, mark.end_ns)
            for mark in self._run.marks
            if (mark.arm, mark.condition) == (arm, condition) and mark.phase in _MEASURED
        ]

    def mix_classes(self) -> dict[str, str]:
        """Classes of the mix, each with the condition in which it was alone."""
        return {key[3]: key[1] for key in sorted(self._groups, reverse=True) if key[1] in _ALONE}


def _run_of(tags: Mapping[str, str]) -> tuple[str, str, str]:
    return tags.get("arm", ""), tags.get("condition", ""), tags.get("repeat", "")


def _order(mark: Mark) -> tuple[str, int]:
    order = ("inject", "short_alone", "long_alone", "together")
    return mark.arm, order.index(mark.condition) if mark.condition in order else len(order)


def _overlap(records: _Records, arm: str) -> Overlap:
    background = records.stretches(arm, "inject", "inject", BACKGROUND)
    return overlap_of(arm, background, records.stretches(arm, "inject", "inject", INJECTED))


def _inject_factors(records: _Records, arm: str) -> list[Factor]:
    of = records.stretches(arm, "inject", "inject", BACKGROUND)
    against = records.stretches(arm, "inject", "baseline", BACKGROUND)
    return [
        _factor(
            f"{arm}.inject.background.{one.name}",
            one.ratio(of, against, paired=False),
            f"{one.words} of background streams while prompts are injected ({arm})",
            f"the same streams alone ({arm})",
        )
        for one in (*_GAPS, _THROUGHPUT)
    ]


def _mix_factors(records: _Records, arm: str) -> list[Factor]:
    factors = []
    for class_name, alone_condition in records.mix_classes().items():
        alone = records.stretches(arm, alone_condition, "measure", class_name)
        together = records.stretches(arm, "together", "measure", class_name)
        factors += [
            _factor(
                f"{arm}.together.{class_name}.{one.name}",
                one.ratio(together, alone, paired=True),
                f"{one.words} of {class_name} requests beside the other class ({arm})",
                f"the same arrivals alone ({arm})",
            )
            for one in _ALL
        ]
    return factors


def _topology_factors(records: _Records, first: str, second: str) -> list[Factor]:
    cases: list[tuple[str, str, tuple[str, ...], tuple[_Statistic, ...]]] = [
        ("inject", "inject", (BACKGROUND,), (*_GAPS, _THROUGHPUT)),
        ("inject", "inject", (INJECTED,), _TTFTS),
    ]
    classes = tuple(records.mix_classes())
    cases += [("together", "measure", (name,), _ALL) for name in classes]
    cases.append(("together", "measure", classes, (_THROUGHPUT,)))
    factors = []
    for condition, phase, names, statistics in cases:
        of = records.stretches(second, condition, phase, *names)
        against = records.stretches(first, condition, phase, *names)
        label = names[0] if len(names) == 1 else "all"
        factors += [
            _factor(
                f"{second}_vs_{first}.{condition}.{label}.{one.name}",
                one.ratio(of, against, paired=True),
                f"{one.words} of {label} requests, condition {condition} ({second})",
                f"the same requests on {first}",
            )
            for one in statistics
        ]
    return factors


def _factor(name: str, ratio: RatioInterval, of: str, against: str) -> Factor:
    interval = None if ratio.lo is None or ratio.hi is None else (ratio.lo, ratio.hi)
    return Factor(name, ratio.value, interval, of, against)


def _arm(records: _Records, arm: str, condition: str) -> Arm:
    timelines, issued = records.group(arm, condition)
    group = summarise_group(timelines, issued)
    windows = records.windows(arm, condition)
    return Arm(
        name=f"{arm}/{condition}",
        topology=arm,
        condition=condition,
        gpus=records.gpus.get(arm),
        requests=group["requests"],
        metrics=group["metrics"],
        classes=group["classes"],
        throughput=throughput(timelines, windows),
    )


def _background_gap_p99_ms(records: _Records, arms: Sequence[str]) -> dict[str, float]:
    """Background gap p99 in ms, without and with injected prompts, for the verdict's words."""
    figures = {}
    for arm in arms:
        for phase in ("baseline", "inject"):
            blocks = gap_blocks(records.stretches(arm, "inject", phase, BACKGROUND))
            pooled = np.concatenate(blocks).astype(np.float64) if blocks else np.empty(0)
            if pooled.size:
                figures[f"{arm}.{phase}"] = Quantile(0.99)(pooled) / NS_PER_MS
    return figures
