"""The interference experiment: what is run.

inject: background streams decode alone (baseline), then prompts are injected beside them. mix: a short
class alone, a long class alone, both together on the same arrivals. Each is run on every topology, in
turn and in opposite order the next time round (A B, B A), so that drift of the machine falls on all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from phasemeter.load.plan import ArrivalFlow, Plan, TimedFlow, UserFlow
from phasemeter.load.workload import RequestClass

Condition = Literal["inject", "short_alone", "long_alone", "together"]
CONDITIONS: tuple[Condition, ...] = ("inject", "short_alone", "long_alone", "together")

_BACKGROUND = RequestClass("background", 64, 256)
_MIX = (RequestClass("short", 256, 128, 0.6), RequestClass("long", 3000, 100, 0.4))


@dataclass(frozen=True, slots=True)
class InterferenceSettings:
    """How the experiment is run; the defaults suit a server on one GPU.

    Attributes:
        background_users: Streams that decode all the time.
        background: What they ask for.
        inject_prompt_tokens: Lengths of the injected prompts, taken in turn.
        inject_output_tokens: Tokens generated for an injected prompt.
        injections_per_s: Injected prompts per second.
        prime_s: Time for the background to get going.
        baseline_s: Background alone.
        inject_s: Background with injected prompts.
        recovery_s: Background alone again.
        mix: The two classes of the mix condition, the short one first; shares split the rate.
        rate_per_s: Requests per second of both classes together.
        mix_s: Time in which the requests of a mix condition arrive.
        drain_s: Time for the last answers of a condition.
        repeats: How often everything is run.
        seed: Source of everything drawn.
    """

    background_users: int = 8
    background: RequestClass = _BACKGROUND
    inject_prompt_tokens: tuple[int, ...] = (512, 1024, 2048, 4096)
    inject_output_tokens: int = 8
    injections_per_s: float = 2.0
    prime_s: float = 2.0
    baseline_s: float = 10.0
    inject_s: float = 15.0
    recovery_s: float = 2.0
    mix: tuple[RequestClass, RequestClass] = _MIX
    rate_per_s: float = 4.0
    mix_s: float = 15.0
    drain_s: float = 20.0
    repeats: int = 2
    seed: int = 1


LAB_SETTINGS = InterferenceSettings(
    background_users=8,
    background=RequestClass("background", 8, 320),
    inject_prompt_tokens=(192, 320, 448),
    inject_output_tokens=8,
    injections_per_s=4.0,
    prime_s=1.0,
    baseline_s=4.0,
    inject_s=6.0,
    recovery_s=1.0,
    mix=(RequestClass("short", 32, 32, 0.7), RequestClass("long", 512, 16, 0.3)),
    rate_per_s=7.0,
    mix_s=6.0,
    drain_s=8.0,
)
"""Sizes at which two cores of the lab engine show the effect in about two minutes."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a condition, in seconds from its start."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class ArmRun:
    """One condition on one topology, once.

    Attributes:
        arm: Name of the topology.
        condition: What is done to it.
        repeat: Which time, from 1.
        plan: What is sent.
        phases: Its stretches.
    """

    arm: str
    condition: Condition
    repeat: int
    plan: Plan
    phases: tuple[Phase, ...]


def arm_runs(settings: InterferenceSettings, arms: Sequence[str]) -> list[ArmRun]:
    """Return all runs of the experiment, in the order in which to make them."""
    runs: list[ArmRun] = []
    for repeat in range(1, settings.repeats + 1):
        ordered = arms if repeat % 2 else arms[::-1]
        for condition in CONDITIONS:
            runs += [_arm_run(settings, arm, condition, repeat) for arm in ordered]
    return runs


def _arm_run(settings: InterferenceSettings, arm: str, condition: Condition, repeat: int) -> ArmRun:
    tags = {"arm": arm, "condition": condition, "repeat": str(repeat)}
    flows: tuple[UserFlow | ArrivalFlow | TimedFlow, ...]
    if condition == "inject":
        phases = _inject_phases(settings)
        flows = (_background(settings, phases, tags), _injections(settings, phases, repeat, tags))
    else:
        phases = (Phase("measure", 0.0, settings.mix_s),)
        wanted = {"short_alone": (0,), "long_alone": (1,), "together": (0, 1)}[condition]
        flows = tuple(_arrivals(settings, settings.mix[index], tags) for index in wanted)
    # The seed leaves out arm and condition: a class meets the same arrivals alone and together,
    # on every topology.
    seed = settings.seed * 1_000 + repeat
    plan = Plan(flows, phases[-1].end_s, settings.drain_s, seed)
    return ArmRun(arm, condition, repeat, plan, phases)


def _inject_phases(settings: InterferenceSettings) -> tuple[Phase, ...]:
    lengths = (
        ("prime", settings.prime_s),
        ("baseline", settings.baseline_s),
        ("inject", settings.inject_s),
        ("recovery", settings.recovery_s),
    )
    phases: list[Phase] = []
    start_s = 0.0
    for name, length_s in lengths:
        phases.append(Phase(name, start_s, start_s + length_s))
        start_s += length_s
    return tuple(phases)


def _background(
    settings: InterferenceSettings, phases: Sequence[Phase], tags: dict[str, str]
) -> UserFlow:
    return UserFlow(
        name="background",
        mix=(settings.background,),
        users=settings.background_users,
        start_s=0.0,
        stop_s=phases[-1].end_s,
        spread_s=settings.prime_s / 2,
        tags=tags,
    )


def _injections(
    settings: InterferenceSettings, phases: Sequence[Phase], repeat: int, tags: dict[str, str]
) -> TimedFlow:
    inject = next(phase for phase in phases if phase.name == "inject")
    offsets = _jittered(inject, settings.injections_per_s, Random(f"{settings.seed}/{repeat}"))
    lengths = settings.inject_prompt_tokens
    at = tuple(
        (
            offset_s,
            RequestClass("injected", lengths[k % len(lengths)], settings.inject_output_tokens),
        )
        for k, offset_s in enumerate(offsets)
    )
    return TimedFlow("injected", at, tags)


def _jittered(phase: Phase, rate_per_s: float, rng: Random) -> Iterator[float]:
    """Yield evenly spaced times, each moved by up to a quarter of the spacing.

    Spacing keeps the injections apart so that each one's effect can be told; the jitter keeps them
    from falling into step with the engine.
    """
    spacing_s = 1 / rate_per_s
    number = int((phase.end_s - phase.start_s) * rate_per_s)
    for k in range(number):
        yield phase.start_s + spacing_s * (k + 0.25 + rng.uniform(-0.25, 0.25))


def _arrivals(
    settings: InterferenceSettings, request_class: RequestClass, tags: dict[str, str]
) -> ArrivalFlow:
    return ArrivalFlow(
        name=request_class.name,
        mix=(request_class,),
        rate_per_s=settings.rate_per_s * request_class.share,
        process="poisson",
        start_s=0.0,
        stop_s=settings.mix_s,
        tags=tags,
    )
