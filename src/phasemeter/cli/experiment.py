"""Runs the interference experiment with a progress bar and shows what it found."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from phasemeter.cli.options import reported_if_cut_off, show_report
from phasemeter.cli.progress import RunProgress, run_progress
from phasemeter.core.errors import UsageError
from phasemeter.experiments.arm_run import ArmRun
from phasemeter.experiments.carry_out import carry_out
from phasemeter.experiments.interference_plan import arm_runs
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.load import run_folder
from phasemeter.load.job import Progress
from phasemeter.load.preflight import refuse_too_long
from phasemeter.load.target import Target


def run_on_lab(
    settings: InterferenceSettings,
    policy: str,
    output: Path | None,
    *,
    timeout_s: float,
    as_json: bool,
) -> int:
    """Start lab engines, run the experiment on them and show the report.

    Args:
        settings: How the experiment is run.
        policy: Policy of the mixed engines.
        output: Run folder, None for a new one.
        timeout_s: Time limit of one request.
        as_json: Print JSON instead of tables.

    Returns:
        The exit status.
    """
    folder = run_folder.create(output, "interference")
    with lab_targets(
        folder, lambda targets: refuse_too_long_prompts(settings, targets, {}), policy
    ) as targets:
        measure(settings, targets, folder, {}, timeout_s=timeout_s, as_json=as_json)
    return show_report(folder, as_json=as_json)


@contextmanager
def lab_targets(
    folder: Path, refuse: Callable[[Mapping[str, Target]], None], policy: str = "mixed"
) -> Iterator[dict[str, Target]]:
    """Run lab engines that write their truth into a run folder, and give their topologies.

    Args:
        folder: The run folder; removed where the topologies are refused.
        refuse: Raises UsageError if the topologies do not do.
        policy: Policy of the mixed engines.
    """
    from phasemeter.experiments.lab_topologies import lab_topologies
    from phasemeter.lab.config import POLICIES

    chosen = next(one for one in POLICIES if one == policy)
    click.echo("starting four lab engines on two cores ...", err=True)
    with lab_topologies(policy=chosen, truth_folder=folder) as targets:
        try:
            refuse(targets)
        except UsageError:
            shutil.rmtree(folder)  # nothing was measured into it
            raise
        yield targets


def refuse_too_long_prompts(
    settings: InterferenceSettings, targets: Mapping[str, Target], headers: Mapping[str, str]
) -> None:
    """Refuse settings whose requests do not fit a server.

    Raises:
        UsageError: If a class's prompt and output are more than a server takes.
    """
    classes = {one for run in arm_runs(settings, list(targets)) for one in run.plan.classes()}
    for target in targets.values():
        refuse_too_long(target, classes, headers=headers)


def run_experiment(
    settings: InterferenceSettings,
    targets: Mapping[str, Target],
    folder: Path,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    as_json: bool,
    per_gpu: bool = False,
) -> int:
    """Run the experiment against targets that answer, show the report, return the exit status."""
    measure(
        settings, targets, folder, headers, timeout_s=timeout_s, as_json=as_json, per_gpu=per_gpu
    )
    return show_report(folder, as_json=as_json)


def measure(
    settings: InterferenceSettings,
    targets: Mapping[str, Target],
    folder: Path,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    as_json: bool,
    per_gpu: bool = False,
) -> None:
    """Carry out the experiment's runs under a progress bar.

    Raises:
        KeyboardInterrupt, WorkerFailedError: After a report on what was measured so far.
    """
    runs = arm_runs(settings, list(targets))
    with reported_if_cut_off(folder, as_json=as_json), run_progress() as progress:
        carry_out(
            folder,
            settings,
            targets,
            runs,
            headers=headers,
            timeout_s=timeout_s,
            on_progress=_Follower(progress, runs).show,
            per_gpu=per_gpu,
        )


class _Follower:
    """Turns the progress of the run under way into that of the whole experiment."""

    def __init__(self, progress: RunProgress, runs: Sequence[ArmRun]) -> None:
        self._progress = progress
        self._runs = runs
        self._whole_s = sum(run.plan.duration_s for run in runs)

    def show(self, run: ArmRun, elapsed_s: float, totals: Progress) -> None:
        number = self._runs.index(run)
        before_s = sum(one.plan.duration_s for one in self._runs[:number])
        share = (before_s + min(elapsed_s, run.plan.duration_s)) / self._whole_s
        self._progress.show(
            share, f"{number + 1}/{len(self._runs)} {run.arm} {run.condition}", totals
        )
