"""What a run's arrivals tell of each engine that served it: steps, chunks, token budget, or why not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from phasemeter.analysis.chunks import (
    ChunkCount,
    TokenBudget,
    count_chunks,
    prompt_steps,
    token_budget,
)
from phasemeter.analysis.histogram import histogram_of, percentiles
from phasemeter.analysis.records import RunRecords
from phasemeter.analysis.shape import (
    BudgetInterval,
    ChunkRow,
    EngineStepsSummary,
    Percentiles,
)
from phasemeter.analysis.steps import UNKNOWN_NS, Refusal, StepSeries, reconstruct
from phasemeter.core.timeline import Timeline

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class EngineSteps:
    """One engine of a run.

    Attributes:
        arm: Topology that it belongs to; empty for a load run.
        instance: Number of the instance that answers stream from, as the driver tags them; empty where
            that is not known.
        timelines: What streamed from it.
        series: Its steps, or why they cannot be told.
        counts: Prompts whose chunks could be counted.
        budget: Its token budget, or why it cannot be told.
    """

    arm: str
    instance: str
    timelines: Sequence[Timeline]
    series: StepSeries | Refusal
    counts: Sequence[ChunkCount]
    budget: TokenBudget | Refusal

    def to_json(self) -> EngineStepsSummary:
        """Return the figures for the report."""
        series, budget = self.series, self.budget
        summary = EngineStepsSummary(
            arm=self.arm,
            instance=self.instance,
            reason=None,
            steps=None,
            unknown_steps=None,
            streams=None,
            duration=None,
            decode_only=None,
            with_prompt=None,
            chunks=_chunk_rows(self.counts),
            token_budget=None,
            budget_reason=None,
        )
        if isinstance(series, Refusal):
            summary["reason"] = series.reason
            return summary
        summary["steps"] = series.ends_ns.size
        summary["unknown_steps"] = series.ends_ns.size - series.known_ns.size
        summary["streams"] = series.streams
        summary["duration"] = _percentiles(series.known_ns)
        alone_ns = series.durations_ns[~prompt_steps(series, self.timelines)]
        summary["decode_only"] = _percentiles(alone_ns[alone_ns != UNKNOWN_NS])
        chunks = sorted({step for count in self.counts for step in count.steps})
        summary["with_prompt"] = _percentiles(series.durations_ns[chunks])
        if isinstance(budget, Refusal):
            summary["budget_reason"] = budget.reason
        else:
            summary["token_budget"] = BudgetInterval(
                at_least=budget.at_least,
                at_most=budget.at_most,
                agreeing=budget.agreeing,
                observations=budget.observations,
            )
        return summary


def steps_of(run: RunRecords) -> list[EngineSteps]:
    """Return what can be told of each engine that a run's responses streamed from."""
    groups: dict[tuple[str, str, str], list[Timeline]] = defaultdict(list)
    for timeline in run.timelines:
        if timeline.streamed and timeline.events:
            tags = timeline.tags
            key = (tags.get("arm", ""), tags.get("instance", ""), timeline.model or "")
            groups[key].append(timeline)
    return [_steps_of(arm, instance, groups[arm, instance, m]) for arm, instance, m in groups]


def _steps_of(arm: str, instance: str, timelines: Sequence[Timeline]) -> EngineSteps:
    series = reconstruct(timelines)
    if isinstance(series, Refusal):
        return EngineSteps(arm, instance, timelines, series, (), series)
    if all(timeline.legs for timeline in timelines):
        budget = Refusal("prompts are computed by other instances than these streams come from")
        return EngineSteps(arm, instance, timelines, series, (), budget)
    counts = count_chunks(series, timelines)
    return EngineSteps(arm, instance, timelines, series, counts, token_budget(counts))


def _percentiles(values_ns: npt.NDArray[np.int64]) -> Percentiles | None:
    if values_ns.size == 0:
        return None
    histogram, clamped = histogram_of(values_ns)
    return percentiles(histogram, clamped=clamped)


def _chunk_rows(counts: Sequence[ChunkCount]) -> list[ChunkRow]:
    by_length: dict[int, Counter[int]] = defaultdict(Counter)
    for count in counts:
        by_length[count.prompt_tokens][count.chunks] += 1
    return [
        ChunkRow(
            prompt_tokens=tokens,
            prompts=numbers.total(),
            chunks={str(number): times for number, times in sorted(numbers.items())},
        )
        for tokens, numbers in sorted(by_length.items())
    ]
