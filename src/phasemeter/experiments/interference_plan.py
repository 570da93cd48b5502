"""The interference experiment: what is run, in which order.

Each condition is run on every topology, in turn and in opposite order the next time round (A B, B A), so
that drift of the machine falls on all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from phasemeter.experiments.arm_run import ArmRun
from phasemeter.experiments.inject_plan import inject_runs
from phasemeter.experiments.interference_settings import Condition, InterferenceSettings
from phasemeter.experiments.mix_plan import mix_runs
from phasemeter.experiments.ramp_plan import ramp_runs

_RUNS: Mapping[Condition, Callable[[InterferenceSettings, str, int], list[ArmRun]]] = {
    "inject": inject_runs,
    "mix": mix_runs,
    "ramp": ramp_runs,
}


def arm_runs(settings: InterferenceSettings, arms: Sequence[str]) -> list[ArmRun]:
    """Return all runs of the experiment, in the order in which to make them."""
    runs: list[ArmRun] = []
    for repeat in range(1, settings.repeats + 1):
        ordered = arms if repeat % 2 else arms[::-1]
        for condition in settings.conditions:
            by_arm = [_RUNS[condition](settings, arm, repeat) for arm in ordered]
            runs += [run for turn in zip(*by_arm, strict=True) for run in turn]
    return runs
