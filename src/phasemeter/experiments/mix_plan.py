"""Condition mix: a short class alone, a long class alone, both together on the same arrivals."""

from __future__ import annotations

from phasemeter.experiments.arm_run import ArmRun, phases_of, seed_of, tags_of
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.load.plan import ArrivalFlow, Plan
from phasemeter.load.workload import RequestClass

STEPS = {"short_alone": (0,), "long_alone": (1,), "together": (0, 1)}
"""What the condition consists of, in order; each with the classes of the mix that take part."""


def mix_runs(settings: InterferenceSettings, arm: str, repeat: int) -> list[ArmRun]:
    """Return the runs of this condition on one topology, once."""
    phases = phases_of((("measure", settings.mix_s),))
    seed = seed_of(settings.seed, repeat)
    runs = []
    for step, members in STEPS.items():
        tags = tags_of(arm, step, repeat)
        flows = tuple(_arrivals(settings, settings.mix[index], tags) for index in members)
        plan = Plan(flows, settings.mix_s, settings.drain_s, seed)
        runs.append(ArmRun(arm, step, repeat, plan, phases))
    return runs


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
