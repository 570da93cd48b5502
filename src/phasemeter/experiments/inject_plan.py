"""Condition inject: background streams decode alone, then prompts are injected beside them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from phasemeter.experiments.arm_run import ArmRun, Phase, phases_of, seed_of, tags_of
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.load.plan import Plan, TimedFlow, UserFlow
from phasemeter.load.workload import RequestClass

CONDITION = "inject"


def inject_runs(settings: InterferenceSettings, arm: str, repeat: int) -> list[ArmRun]:
    """Return the runs of this condition on one topology, once."""
    tags = tags_of(arm, CONDITION, repeat)
    phases = phases_of(
        (
            ("prime", settings.prime_s),
            ("baseline", settings.baseline_s),
            ("inject", settings.inject_s),
            ("recovery", settings.recovery_s),
        )
    )
    background = UserFlow(
        name="background",
        mix=(settings.background,),
        users=settings.background_users,
        start_s=0.0,
        stop_s=phases[-1].end_s,
        spread_s=settings.prime_s / 2,
        tags=tags,
    )
    inject = next(phase for phase in phases if phase.name == "inject")
    flows = (background, TimedFlow("injected", _injections(settings, inject, repeat), tags))
    seed = seed_of(settings.seed, repeat)
    plan = Plan(flows, phases[-1].end_s, settings.drain_s, seed)
    return [ArmRun(arm, CONDITION, repeat, plan, phases)]


def _injections(
    settings: InterferenceSettings, phase: Phase, repeat: int
) -> tuple[tuple[float, RequestClass], ...]:
    offsets = _jittered(phase, settings.injections_per_s, Random(f"{settings.seed}/{repeat}"))
    lengths = settings.inject_prompt_tokens
    return tuple(
        (
            offset_s,
            RequestClass("injected", lengths[k % len(lengths)], settings.inject_output_tokens),
        )
        for k, offset_s in enumerate(offsets)
    )


def _jittered(phase: Phase, rate_per_s: float, rng: Random) -> Iterator[float]:
    """Yield evenly spaced times, each moved by up to a quarter of the spacing.

    Spacing keeps the injections apart so that each one's effect can be told; the jitter keeps them
    from falling into step with the engine.
    """
    spacing_s = 1 / rate_per_s
    number = int((phase.end_s - phase.start_s) * rate_per_s)
    for k in range(number):
        yield phase.start_s + spacing_s * (k + 0.25 + rng.uniform(-0.25, 0.25))
