"""Carries out the runs of an experiment, one after the other, into one run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from phasemeter.core.clock import NS_PER_S
from phasemeter.experiments.arm_run import ArmRun
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.load import run_folder
from phasemeter.load.job import Progress
from phasemeter.load.launch import run_plan
from phasemeter.load.server_metrics import instances_of
from phasemeter.load.target import Target
from phasemeter.telemetry.watch import Condition, watching

OnProgress = Callable[[ArmRun, float, Progress], None]


def carry_out(
    folder: Path,
    settings: InterferenceSettings,
    targets: Mapping[str, Target],
    runs: Sequence[ArmRun],
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    on_progress: OnProgress,
    per_gpu: bool = False,
) -> None:
    """Run everything; the folder can be reported on at any time meanwhile.

    Args:
        folder: The run folder.
        settings: What the runs were made from; written to the manifest.
        targets: Target of each topology.
        runs: The runs, in order.
        headers: Extra request headers.
        timeout_s: Time limit of one request.
        on_progress: Called a few times a second with the run under way, the seconds since its
            start and its totals.
        per_gpu: Unequal GPU counts were accepted, to be compared per GPU.

    Raises:
        KeyboardInterrupt: On SIGINT or SIGTERM, when everything measured so far has been written.
        WorkerFailedError: If a load worker failed.
    """
    run_folder.write_manifest(
        folder,
        "interference",
        {
            "seed": settings.seed,
            "plan": asdict(settings),
            "target": {**about_targets(targets), "per_gpu": per_gpu},
        },
    )
    for writer, run in enumerate(runs):
        carry_out_run(
            folder,
            run,
            targets[run.arm],
            writer=writer,
            headers=headers,
            timeout_s=timeout_s,
            on_progress=on_progress,
        )


def carry_out_run(
    folder: Path,
    run: ArmRun,
    target: Target,
    *,
    writer: int,
    headers: Mapping[str, str],
    timeout_s: float,
    on_progress: OnProgress,
) -> None:
    """Carry out one run and mark its phases.

    Args:
        folder: The run folder.
        run: The run.
        target: Its topology.
        writer: Number of its record file within the folder.
        headers: Extra request headers.
        timeout_s: Time limit of one request.
        on_progress: Told the run, the seconds since its start and its totals.

    Raises:
        KeyboardInterrupt, WorkerFailedError: As in `carry_out`.
    """
    instances = instances_of(target, headers)
    about = Condition(run.arm, run.condition, run.repeat, run.users)
    with watching(folder, instances, about):
        origin_ns, end_ns = run_plan(
            folder,
            run.plan,
            target,
            first_writer=writer,
            timeout_s=timeout_s,
            headers=headers,
            on_progress=lambda elapsed_s, sums: on_progress(run, elapsed_s, sums),
        )
    for phase in run.phases:
        run_folder.append_mark(
            folder,
            {
                "arm": run.arm,
                "condition": run.condition,
                "repeat": run.repeat,
                "phase": phase.name,
                "start_ns": origin_ns + round(phase.start_s * NS_PER_S),
                # A run whose requests are all answered ends before its time is up.
                "end_ns": min(origin_ns + round(phase.end_s * NS_PER_S), end_ns),
                **({} if run.users is None else {"users": run.users}),
            },
        )


def about_targets(targets: Mapping[str, Target]) -> dict[str, object]:
    """Return what a manifest tells of an experiment's topologies."""
    return {
        "urls": _urls(targets),
        "model": next(iter(targets.values())).style.model,
        "gpus": {arm: target.gpus for arm, target in targets.items()},
        "topologies": {arm: target.as_document() for arm, target in targets.items()},
    }


def _urls(targets: Mapping[str, Target]) -> list[str]:
    urls = [
        endpoint.base_url
        for target in targets.values()
        for endpoint in target.endpoints + target.decode_endpoints
    ]
    return list(dict.fromkeys(urls))
