"""The interference experiment: what it showed. A pure function of the run's records.

Factors are ratios of a statistic under load to the same statistic without it (or of one topology to
the other) with 95 % bootstrap intervals; names read `topology.condition.class.statistic`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasemeter.analysis.bootstrap import Quantile
from phasemeter.analysis.finding import Factor, Finding
from phasemeter.analysis.ramp_levels import by_topology
from phasemeter.analysis.records import RunRecords
from phasemeter.core.clock import NS_PER_MS
from phasemeter.experiments.blocks import gap_blocks
from phasemeter.experiments.inject_effects import Injected, injected_on
from phasemeter.experiments.inject_words import inject_notes
from phasemeter.experiments.interference_arms import arm_of
from phasemeter.experiments.interference_records import (
    BACKGROUND,
    INJECTED,
    InterferenceRecords,
    Part,
)
from phasemeter.experiments.interference_verdict import Evidence, judge, notes_on
from phasemeter.experiments.per_gpu import normalised
from phasemeter.experiments.ramp import analyse_ramp
from phasemeter.experiments.ramp_words import ramp_notes
from phasemeter.experiments.statistic import GAPS, THROUGHPUT, TTFTS, Statistic


def analyse(run: RunRecords) -> Finding:
    """Return the finding of an interference run, also of one that was cut off."""
    records = InterferenceRecords(run)
    arms = records.arms()
    injected = {
        arm: injected_on(arm, records.inject_runs(arm), records.alone_ttfts_ns(arm))
        for arm in arms
        if records.measured(arm, "inject")
    }
    factors: list[Factor] = []
    for arm in arms:
        if arm in injected:
            factors += _inject_factors(records, arm, injected[arm])
        factors += _mix_factors(records, arm)
    for other in arms[1:]:
        factors += _topology_factors(records, arms[0], other)
    ramp = analyse_ramp(records)
    factors += ramp.factors
    if records.per_gpu:
        factors = normalised(factors, records.gpus)
    evidence = Evidence(
        factors={factor.name: factor for factor in factors},
        injected=injected,
        gpus=records.gpus,
        per_gpu=records.per_gpu,
        apart=records.apart,
        gap_p99_ms=_background_gap_p99_ms(records, arms),
        failed=records.failed,
        issued=records.issued,
        ramp=by_topology(ramp.levels),
    )
    return Finding(
        verdict=judge(evidence, arms),
        factors=tuple(factors),
        arms=tuple(arm_of(records, part) for part in records.parts()),
        exposures=tuple(one for each in injected.values() for one in each.overlap.exposures),
        notes=(
            *inject_notes(injected, records.apart, records.inject_prime_s()),
            *notes_on(evidence),
            *ramp_notes(ramp.levels, records.ramp_prime_s),
        ),
        ramp=ramp.levels,
        cells=tuple(cell for each in injected.values() for cell in each.cells),
        effects=tuple(effect for each in injected.values() for effect in each.effects),
    )


def _inject_factors(records: InterferenceRecords, arm: str, injected: Injected) -> list[Factor]:
    of = records.stretches(Part(arm, "inject", "inject"), BACKGROUND)
    against = records.stretches(Part(arm, "inject", "baseline"), BACKGROUND)
    return [
        Factor(
            f"{arm}.inject.background.longest_exposed_gap",
            injected.longest_gap.value,
            injected.longest_gap.ci95,
            f"longest background gap beside an injection ({arm})",
            f"longest gap in undisturbed time of the same length ({arm}), median over pairs",
        ),
        *(
            Factor.from_ratio(
                f"{arm}.inject.background.{one.name}",
                one.ratio(of, against, paired=False),
                f"{one.words} of background streams while prompts are injected ({arm})",
                f"the same streams alone ({arm})",
            )
            for one in (*GAPS, THROUGHPUT)
        ),
    ]


def _mix_factors(records: InterferenceRecords, arm: str) -> list[Factor]:
    factors = []
    for class_name, alone_condition in records.mix_classes().items():
        if not records.measured(arm, "together"):
            continue
        alone = records.stretches(Part(arm, alone_condition, "measure"), class_name)
        together = records.stretches(Part(arm, "together", "measure"), class_name)
        factors += [
            Factor.from_ratio(
                f"{arm}.together.{class_name}.{one.name}",
                one.ratio(together, alone, paired=True),
                f"{one.words} of {class_name} requests beside the other class ({arm})",
                f"the same arrivals alone ({arm})",
            )
            for one in (*GAPS, *TTFTS, THROUGHPUT)
        ]
    return factors


def _topology_factors(records: InterferenceRecords, first: str, second: str) -> list[Factor]:
    classes = tuple(records.mix_classes())
    cases: list[tuple[str, str, tuple[str, ...], tuple[Statistic, ...]]] = [
        ("inject", "inject", (BACKGROUND,), (*GAPS, THROUGHPUT)),
        ("inject", "inject", (INJECTED,), TTFTS),
        *(("together", "measure", (name,), (*GAPS, *TTFTS, THROUGHPUT)) for name in classes),
        ("together", "measure", classes, (THROUGHPUT,)),
    ]
    factors = []
    for condition, phase, names, statistics in cases:
        if not all(records.measured(arm, condition) for arm in (first, second)):
            continue
        of = records.stretches(Part(second, condition, phase), *names)
        against = records.stretches(Part(first, condition, phase), *names)
        label = names[0] if len(names) == 1 else "all"
        factors += [
            Factor.from_ratio(
                f"{second}_vs_{first}.{condition}.{label}.{one.name}",
                one.ratio(of, against, paired=True),
                f"{one.words} of {label} requests, condition {condition} ({second})",
                f"the same requests on {first}",
            )
            for one in statistics
        ]
    return factors


def _background_gap_p99_ms(records: InterferenceRecords, arms: Sequence[str]) -> dict[str, float]:
    """Background gap p99 in ms by `topology.phase`, for the verdict's words."""
    figures = {}
    for arm in arms:
        for phase in ("baseline", "inject"):
            stretches = records.stretches(Part(arm, "inject", phase), BACKGROUND)
            blocks = list(gap_blocks(stretches).values())
            pooled = np.concatenate(blocks).astype(np.float64) if blocks else np.empty(0)
            if pooled.size:
                figures[f"{arm}.{phase}"] = Quantile(0.99)(pooled) / NS_PER_MS
    return figures
