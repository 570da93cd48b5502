"""A whole load run: plan, target and folder in; records, marks and manifest out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from phasemeter.load import run_folder
from phasemeter.load.job import Progress
from phasemeter.load.launch import run_plan
from phasemeter.load.plan import Plan
from phasemeter.load.server_metrics import instances_of
from phasemeter.load.target import Target
from phasemeter.telemetry.watch import Condition, watching


def run_load(
    folder: Path,
    plan: Plan,
    target: Target,
    *,
    workers: int,
    timeout_s: float,
    cpus: Sequence[int] = (),
    headers: Mapping[str, str],
    on_progress: Callable[[float, Progress], None],
    about: Mapping[str, object] | None = None,
) -> None:
    """Carry out a plan as the only arm of a run folder.

    The folder can be reported on at any time: the manifest is written first, records are appended as
    requests end, and the mark that delimits the measured phase comes last.

    Args:
        folder: The run folder.
        plan: What to send.
        target: Where to.
        workers: Number of processes.
        timeout_s: Time limit of one request.
        cpus: CPU that each worker keeps to; empty for any.
        headers: Extra request headers.
        on_progress: Called a few times a second with the time since the plan's origin and totals.
        about: Further entries of the manifest.

    Raises:
        KeyboardInterrupt: On SIGINT or SIGTERM, when everything measured so far has been written.
        WorkerFailedError: If a worker failed.
    """
    run_folder.write_manifest(
        folder,
        "load",
        {
            "seed": plan.seed,
            "plan": plan.as_document(),
            "target": about_target(target, "load"),
            "workers": workers,
            "pinned_cpus": list(cpus),
            **(about or {}),
        },
    )
    run_measured(
        folder,
        plan,
        target,
        Condition("load", "load"),
        workers=workers,
        timeout_s=timeout_s,
        cpus=cpus,
        headers=headers,
        on_progress=on_progress,
    )


def run_measured(
    folder: Path,
    plan: Plan,
    target: Target,
    condition: Condition,
    *,
    first_writer: int = 0,
    workers: int = 1,
    timeout_s: float,
    cpus: Sequence[int] = (),
    headers: Mapping[str, str],
    on_progress: Callable[[float, Progress], None],
) -> None:
    """Carry out a plan that is measured as a whole, the servers' metrics beside it, and mark it.

    Args and errors are those of `run_plan`; `condition` is what its mark and the metrics' samples say.
    """
    with watching(folder, instances_of(target, headers), condition):
        start_ns, end_ns = run_plan(
            folder,
            plan,
            target,
            first_writer=first_writer,
            workers=workers,
            timeout_s=timeout_s,
            cpus=cpus,
            headers=headers,
            on_progress=on_progress,
        )
    run_folder.append_mark(
        folder,
        {
            "arm": condition.arm,
            "condition": condition.condition,
            "repeat": condition.repeat,
            "phase": "measure",
            "start_ns": start_ns,
            "end_ns": end_ns,
        },
    )


def about_target(target: Target, arm: str) -> dict[str, object]:
    """Return what a manifest tells of the only target of a run."""
    return {
        **target.as_document(),
        "urls": [one.base_url for one in target.endpoints + target.decode_endpoints],
        "model": target.style.model,
        "gpus": {arm: target.gpus},
    }
