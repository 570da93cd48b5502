"""The planner: what a run of it showed. A pure function of the run's records.

Rates come from the runs that were made after the search, so that no figure was picked for its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from zlib import crc32

from phasemeter.analysis.bootstrapped import Bootstrapped, bootstrapped_rate, derived
from phasemeter.analysis.pd_ratio import (
    Capacity,
    Prediction,
    Shape,
    best_split,
    matched_ratio,
    predict,
    predictions,
    ratio_of,
)
from phasemeter.analysis.planner_finding import (
    MeasuredTopology,
    MixedClass,
    PhaseRate,
    PlannerFinding,
    Point,
)
from phasemeter.analysis.records import RunRecords
from phasemeter.core.errors import UsageError
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.experiments.blocks import Stretch
from phasemeter.experiments.capacity import (
    Blocks,
    decode_blocks,
    most_together,
    output_token_blocks,
    prompt_token_blocks,
    prompt_tokens,
    request_blocks,
)
from phasemeter.experiments.phase_isolated import (
    GAIN,
    ISOLATED,
    MEASURE,
    SEARCH,
    Condition,
    Level,
    Pace,
    PlannerSettings,
    best_level,
    mean_context,
    mean_lengths,
    still_rising,
)
from phasemeter.load.workload import RequestClass

CERTAIN = 0.95
"""A split is called the best without reservation where it is in so many of the draws."""

CONTEXT_OFF = 0.1
"""A decode context that is off by more than this share of the mix's is told."""


class PlannerRecords:
    """The ok responses of a planner's run, by topology, condition and number of users."""

    def __init__(self, run: RunRecords) -> None:
        self._groups: dict[tuple[str, str, str], list[Timeline]] = {}
        for timeline in run.timelines:
            tags = timeline.tags
            if timeline.outcome is Outcome.OK:
                key = (tags.get("arm", ""), tags.get("condition", ""), tags.get("repeat", ""))
                self._groups.setdefault(key, []).append(timeline)
        self._marks = run.marks

    def stretches(self, arm: str, condition: Condition, phase: str) -> dict[int, list[Stretch]]:
        """Return the stretches of a phase by number of users, in the order in which they were run."""
        found: dict[int, list[Stretch]] = {}
        for mark in self._marks:
            name, _, users = mark.condition.partition("@")
            if (mark.arm, name, mark.phase) == (arm, condition, phase):
                key = (arm, mark.condition, str(mark.repeat))
                found.setdefault(int(users), []).append(Stretch(mark, self._groups.get(key, [])))
        return found

    def rate(
        self, arm: str, condition: Condition, users: int, stretches: Sequence[Stretch]
    ) -> Bootstrapped | None:
        """Return the work per second: tokens of a phase alone, requests of the mix.

        None where it is not known, as with streams that never decoded all at a time.
        """
        blocks: Blocks
        if condition == "prefill":
            blocks = prompt_token_blocks(stretches)
        elif condition == "decode":
            blocks = decode_blocks(stretches, users)
        else:
            blocks = request_blocks(stretches)
        estimate = bootstrapped_rate(blocks, seed=crc32(f"{arm} {condition}".encode()))
        return estimate if estimate is not None and estimate.value > 0 else None

    def levels(self, arm: str, condition: Condition) -> list[Level]:
        """Return what the search has tried, in order."""
        levels = []
        for users, stretches in self.stretches(arm, condition, SEARCH).items():
            rate = self.rate(arm, condition, users, stretches)
            together = most_together(stretches) if condition == "decode" else None
            levels.append(Level(users, None if rate is None else rate.value, together))
        return levels

    def pace(self) -> Pace | None:
        """Return what is known of the instance's speed; None before prompts were read."""
        prompts = [level.rate for level in self.levels(ISOLATED, "prefill") if level.rate]
        if not prompts:
            return None
        steps = [
            level.users / level.rate for level in self.levels(ISOLATED, "decode") if level.rate
        ]
        return Pace(max(prompts), steps[-1] if steps else None)

    def capacity(self, mix: Sequence[RequestClass]) -> Capacity | None:
        """Return what one instance did in the search; None before both phases were searched."""
        phases: tuple[Condition, ...] = ("prefill", "decode")
        best = [best_level(self.levels(ISOLATED, phase)) for phase in phases]
        per_s = [
            level.rate / tokens
            for level, tokens in zip(best, mean_lengths(mix), strict=True)
            if level is not None and level.rate is not None
        ]
        if len(per_s) < 2:
            return None
        return Capacity(Bootstrapped(per_s[0]), Bootstrapped(per_s[1]), mean_lengths(mix)[1])


@dataclass(frozen=True, slots=True)
class PlannedFor:
    """What a run was made for.

    Attributes:
        settings: How it was made.
        shapes: Numbers of instances of each topology; None where they say nothing.
        gpus: Accelerators of each topology.
    """

    settings: PlannerSettings
    shapes: Mapping[str, Shape | None]
    gpus: Mapping[str, int]

    def to_json(self) -> dict[str, object]:
        """Return it for the manifest."""
        return asdict(self)

    @classmethod
    def of(cls, run: RunRecords) -> PlannedFor:
        """Read it from a run's manifest.

        Raises:
            UsageError: If the manifest does not hold it.
        """
        try:
            plan: Any = run.manifest["plan"]
            told = dict(plan["settings"])
            mix = tuple(RequestClass(**one) for one in told.pop("mix"))
            shapes = {
                arm: None if one is None else Shape(**one) for arm, one in plan["shapes"].items()
            }
            return cls(PlannerSettings(mix=mix, **told), shapes, plan["gpus"])
        except (KeyError, TypeError) as fault:
            msg = f"run: {run.path / 'run.json'} does not say what was planned for ({fault})"
            raise UsageError(msg) from fault


def analyse(run: RunRecords) -> PlannerFinding:
    """Return the finding of a planner's run, also of one that was cut off.

    Raises:
        UsageError: If the manifest is not that of a planner's run.
    """
    planned = PlannedFor.of(run)
    settings, records = planned.settings, PlannerRecords(run)
    prompt, output = mean_lengths(settings.mix)
    prefill = _phase_rate(records, "prefill", prompt)
    decode = _phase_rate(records, "decode", output)
    capacity = None
    if prefill is not None and decode is not None:
        capacity = Capacity(prefill.requests_per_s, decode.requests_per_s, output)
    predicted = predictions(capacity, settings.instances) if capacity else []
    best = best_split(predicted)
    measured = _measured(records, planned, capacity)
    return PlannerFinding(
        mix=tuple(
            MixedClass(one.name, one.share, one.prompt_tokens, one.output_tokens)
            for one in settings.mix
        ),
        prompt_tokens=prompt,
        output_tokens=output,
        gpus_per_instance=settings.gpus_per_instance,
        instances=settings.instances,
        prefill=prefill,
        decode=decode,
        predictions=tuple(predicted),
        best=None if best is None else best[0],
        best_share=None if best is None else best[1],
        matched=matched_ratio(capacity) if capacity else None,
        measured=tuple(measured),
        curves=_curves(records, planned),
        warnings=(
            *_search_warnings(records, planned),
            *_decode_warnings(settings, decode),
            *_split_warnings(predicted, best),
            *_failures(run),
        ),
    )


def _phase_rate(
    records: PlannerRecords, condition: Literal["prefill", "decode"], tokens_per_request: float
) -> PhaseRate | None:
    for users, stretches in records.stretches(ISOLATED, condition, MEASURE).items():
        rate = records.rate(ISOLATED, condition, users, stretches)
        if rate is None:
            continue
        decodes = condition == "decode"
        return PhaseRate(
            users=users,
            tokens_per_s=rate,
            requests_per_s=derived(lambda tokens: tokens / tokens_per_request, rate),
            step_ms=1_000 * users / rate.value if decodes else None,
            context_tokens=_context(stretches) if decodes else None,
        )
    return None


def _context(stretches: Sequence[Stretch]) -> float | None:
    """Return the mean tokens before each decoded one, as the server counts them where it does."""
    contexts, weights = [], []
    for stretch in stretches:
        for timeline in stretch.timelines:
            output = timeline.usage.output_tokens or len(timeline.events)
            contexts.append(prompt_tokens(timeline) + output / 2)
            weights.append(output)
    total = sum(weights)
    return sum(c * w for c, w in zip(contexts, weights, strict=True)) / total if total else None


def _measured(
    records: PlannerRecords, planned: PlannedFor, capacity: Capacity | None
) -> Iterator[MeasuredTopology]:
    for arm, shape in planned.shapes.items():
        for users, stretches in records.stretches(arm, "mix", MEASURE).items():
            rate = records.rate(arm, "mix", users, stretches)
            if rate is None:
                continue
            prediction = predict(capacity, shape) if capacity and shape else None
            yield MeasuredTopology(
                arm=arm,
                shape=shape,
                gpus=planned.gpus[arm],
                users=users,
                requests_per_s=rate,
                output_tokens_per_s=bootstrapped_rate(
                    output_token_blocks(stretches), seed=crc32(arm.encode())
                ),
                prediction=prediction,
                ratio=None if prediction is None else ratio_of(rate, prediction),
            )


def _curves(records: PlannerRecords, planned: PlannedFor) -> dict[str, tuple[Point, ...]]:
    wanted: list[tuple[str, str, Condition]] = [
        ("prefill", ISOLATED, "prefill"),
        ("decode", ISOLATED, "decode"),
        *((arm, arm, "mix") for arm in planned.shapes),
    ]
    curves = {}
    for name, arm, condition in wanted:
        points = []
        for users, stretches in records.stretches(arm, condition, SEARCH).items():
            rate = records.rate(arm, condition, users, stretches)
            if rate is not None:
                step_ms = 1_000 * users / rate.value if condition == "decode" else None
                points.append(Point(users, rate, step_ms))
        curves[name] = tuple(points)
    return curves


def _search_warnings(records: PlannerRecords, planned: PlannedFor) -> Iterator[str]:
    most = planned.settings.most_users
    searches: list[tuple[str, str, Condition]] = [
        ("prefill alone", ISOLATED, "prefill"),
        ("decode alone", ISOLATED, "decode"),
        *((arm, arm, "mix") for arm in planned.shapes),
    ]
    for words, arm, condition in searches:
        levels = records.levels(arm, condition)
        if still_rising(levels, most):
            yield (
                f"{words}: {most} users brought {GAIN - 1:.0%} or more over fewer, and more were not "
                "tried: the rate is a lower bound. --most-users allows more."
            )
        short = [level for level in levels if level.rate is None and level.together]
        if condition == "decode" and short:
            level = short[-1]
            rising = _rises_at_the_end([one for one in levels if one.rate is not None])
            yield (
                f"decode alone: of {level.users} streams at most {level.together} decoded at a time: "
                "decode is limited by the server's slots or KV cache"
                + (
                    ", and its rate still rose there: more of them would raise it."
                    if rising
                    else ", though its rate hardly rose any more there."
                )
            )


def _rises_at_the_end(levels: Sequence[Level]) -> bool:
    rates = [level.rate or 0.0 for level in sorted(levels, key=lambda level: level.users)]
    return len(rates) > 1 and rates[-1] >= GAIN * rates[-2]


def _decode_warnings(settings: PlannerSettings, decode: PhaseRate | None) -> Iterator[str]:
    context = mean_context(settings.mix)
    told = None if decode is None else decode.context_tokens
    if told is not None and abs(told - context) > CONTEXT_OFF * context:
        yield (
            f"decode alone was measured at a mean context of {told:,.0f} tokens, the mix has "
            f"{context:,.0f}: a token costs more the longer its context is."
        )


def _split_warnings(
    predicted: Sequence[Prediction], best: tuple[Prediction, float | None] | None
) -> Iterator[str]:
    if predicted and best is None:
        yield "one instance cannot be split: --gpus says how many there will be."
    if best is not None and best[1] is not None and best[1] < CERTAIN:
        yield (
            f"{best[0].shape.name} is the best split in {best[1]:.0%} of the bootstrap draws only: "
            "the splits' intervals overlap, and a longer --measure-time narrows them."
        )


def _failures(run: RunRecords) -> Iterator[str]:
    bad = (Outcome.ERROR, Outcome.TRUNCATED, Outcome.EMPTY)
    failed = sum(timeline.outcome in bad for timeline in run.timelines)
    if failed:
        yield f"{failed:,} of {len(run.timelines):,} requests failed; the rates are of the others."
