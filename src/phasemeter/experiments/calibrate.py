"""Carries out a calibration into a run folder, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from phasemeter.analysis.calibration import Calibration, calibration_from
from phasemeter.analysis.engine_steps import steps_of
from phasemeter.analysis.records import RunRecords, load_run
from phasemeter.experiments.calibrate_plan import (
    CalibrationSettings,
    Stage,
    beside_stage,
    idle_stages,
)
from phasemeter.load import run_folder
from phasemeter.load.job import Progress
from phasemeter.load.round_trip import RoundTrip
from phasemeter.load.run import about_target, run_measured
from phasemeter.load.target import Target
from phasemeter.telemetry.watch import Condition

OnProgress = Callable[[float, str, Progress], None]

_IDLE_SHARE = 0.75
"""Share of the whole, for the progress bar, of the stages before the last one."""


def carry_out_calibration(
    folder: Path,
    settings: CalibrationSettings,
    target: Target,
    network: RoundTrip,
    *,
    max_model_len: int | None,
    headers: Mapping[str, str],
    timeout_s: float,
    on_progress: OnProgress,
) -> None:
    """Run every stage; the folder can be reported on at any time meanwhile.

    Args:
        folder: The run folder.
        settings: How the calibration is run.
        target: The server.
        network: Its round trips, measured apart.
        max_model_len: Longest sequence that the server takes; None where unknown.
        headers: Extra request headers.
        timeout_s: Time limit of one request.
        on_progress: Called a few times a second with the share done, the stage and its totals.

    Raises:
        KeyboardInterrupt: On SIGINT or SIGTERM, when everything measured so far has been written.
        WorkerFailedError: If a load worker failed.
    """
    run_folder.write_manifest(
        folder,
        "calibrate",
        {
            "seed": settings.seed,
            "plan": asdict(settings),
            "target": about_target(target, "calibrate"),
            "network": asdict(network),
        },
    )
    stages = idle_stages(settings)
    for number, stage in enumerate(stages):

        def show(
            elapsed_s: float, sums: Progress, number: int = number, stage: Stage = stage
        ) -> None:
            done = (sums.ok + sums.failed) / (stage.requests or 1)
            on_progress(_IDLE_SHARE * (number + min(done, 1)) / len(stages), stage.label, sums)

        _run(folder, stage, number, target, headers, timeout_s, show)
    last = _last_stage(folder, settings, max_model_len)
    if last is not None:

        def show_last(elapsed_s: float, sums: Progress) -> None:
            done = min(elapsed_s / last.plan.duration_s, 1)
            on_progress(_IDLE_SHARE + (1 - _IDLE_SHARE) * done, last.label, sums)

        _run(folder, last, len(stages), target, headers, timeout_s, show_last)


def analyse(run: RunRecords) -> Calibration | None:
    """Return what a calibration run showed, also one that was cut off; None where it is too little."""
    return calibration_from(run, steps_of(run))


def _last_stage(
    folder: Path, settings: CalibrationSettings, max_model_len: int | None
) -> Stage | None:
    found = analyse(load_run(folder))
    if found is None or not found.decode or not settings.beside_streams:
        return None
    longest = found.prompts[-1]
    return beside_stage(settings, longest.p50_ms, found.decode[-1].step_ms, max_model_len)


def _run(
    folder: Path,
    stage: Stage,
    number: int,
    target: Target,
    headers: Mapping[str, str],
    timeout_s: float,
    on_progress: Callable[[float, Progress], None],
) -> None:
    run_measured(
        folder,
        stage.plan,
        target,
        Condition("calibrate", stage.condition, number + 1),
        first_writer=number,
        timeout_s=timeout_s,
        headers=headers,
        on_progress=on_progress,
    )
