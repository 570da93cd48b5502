"""Everything that a run folder's report consists of, built from the folder's files alone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from phasemeter.analysis.engine_steps import EngineSteps, steps_of
from phasemeter.analysis.finding import Finding
from phasemeter.analysis.histogram import histogram_of
from phasemeter.analysis.planner_finding import PlannerFinding
from phasemeter.analysis.records import RunRecords, load_run
from phasemeter.analysis.samples import Samples, collect
from phasemeter.analysis.shape import Summary
from phasemeter.analysis.summary import summarise
from phasemeter.analysis.window import whole_window
from phasemeter.core.clock import WallAnchor
from phasemeter.core.errors import UsageError
from phasemeter.core.timeline import Timeline
from phasemeter.report.about import kind_of
from phasemeter.report.hgrm import write_hgrm
from phasemeter.report.page import render_page
from phasemeter.sinks.hlog import write_interval_log

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

Analyse = Callable[[RunRecords], Finding]


@dataclass(frozen=True, slots=True)
class Report:
    """A run and what was worked out of it.

    Attributes:
        run: The run as read.
        summary: Its summary.
        finding: The outcome of an interference run, None for a load run.
        samples: Samples of every metric by class.
        steps: What the arrivals tell of each engine's steps.
        planner: The outcome of a planner's run, None for any other.
    """

    run: RunRecords
    summary: Summary
    finding: Finding | None
    samples: Mapping[str, Samples]
    steps: Sequence[EngineSteps] = ()
    planner: PlannerFinding | None = None

    def to_json(self) -> dict[str, object]:
        """Return the document of `phasemeter report --json`."""
        document: dict[str, object] = dict(self.summary)
        if self.finding is not None:
            document["interference"] = self.finding.to_json()
        if self.planner is not None:
            document["plan"] = self.planner.to_json()
        return document


def read_report(run_path: Path, *, analyse: Analyse | None = None) -> Report:
    """Read a run and work out its summary and finding; write nothing.

    Args:
        run_path: The run folder.
        analyse: Analysis of an interference run; the built-in experiment's where None.

    Raises:
        UsageError: If there is no readable run.
    """
    run = load_run(run_path)
    samples = collect(run.timelines)
    finding = None
    if kind_of(run) == "interference":
        finding = (analyse or _experiment_analyse())(run)
    steps = steps_of(run)
    planner = _planner_analyse()(run) if kind_of(run) == "plan" else None
    return Report(run, summarise(run, samples, steps), finding, samples, steps, planner)


def write_report(
    report: Report, *, html: Path | None = None, hgrm: Path | None = None
) -> list[str]:
    """Write the page and percentile files asked for, and `summary.json` and `phases.hlog` into the run.

    Next to a single record file nothing is written unasked: there is no run folder to write to.

    Args:
        report: What to write.
        html: Where to write the page, None for no page.
        hgrm: Folder for percentile distribution files, None for none.

    Returns:
        What could not be written although nobody asked for it, such as into an archived run.

    Raises:
        UsageError: If a file that was asked for cannot be written.
    """
    histograms = phase_histograms(report)
    try:
        if html is not None:
            page = render_page(
                report.run,
                report.summary,
                report.finding,
                samples=report.samples,
                steps=report.steps,
                planner=report.planner,
            )
            write_atomically(html, page)
        if hgrm is not None:
            write_hgrm(hgrm, histograms)
    except OSError as fault:
        msg = f"report: cannot write {html or hgrm} ({fault.strerror}); give a writable place"
        raise UsageError(msg) from fault
    if not report.run.path.is_dir():
        return []
    return _write_beside(report, histograms)


def _write_beside(report: Report, histograms: Mapping[str, HdrHistogram]) -> list[str]:
    folder = report.run.path
    try:
        summary = json.dumps(report.to_json(), indent=1)
        write_atomically(folder / "summary.json", summary + "\n")
        _write_hlog(folder / "phases.hlog", report.run, histograms)
    except OSError as fault:
        return [f"summary.json and phases.hlog are not kept in {folder}: {fault.strerror}"]
    return []


def phase_histograms(report: Report) -> dict[str, HdrHistogram]:
    """Return a histogram for each metric and class that has samples, by tag.

    The tag is `metric.class`; of an experiment `metric.class.arm.condition`.
    """
    is_load = report.finding is None and report.planner is None
    groups = report.samples if is_load else _samples_by_arm(report.run.timelines)
    return {
        f"{metric}.{_tag(group)}": histogram_of(values)[0]
        for group, samples in groups.items()
        for metric, values in samples.items()
        if values.size
    }


def _samples_by_arm(timelines: Sequence[Timeline]) -> dict[str, Samples]:
    arms: dict[str, list[Timeline]] = {}
    for timeline in timelines:
        arm = f"{timeline.tags.get('arm', 'none')}.{timeline.tags.get('condition', 'none')}"
        arms.setdefault(arm, []).append(timeline)
    return {
        f"{class_name}.{arm}": samples
        for arm, members in arms.items()
        for class_name, samples in collect(members).items()
    }


def _tag(group: str) -> str:
    """Return a group's name without what an interval log cannot hold in a tag."""
    return re.sub(r"[^A-Za-z0-9_./+-]", "_", group)


def _write_hlog(path: Path, run: RunRecords, histograms: Mapping[str, HdrHistogram]) -> None:
    whole = whole_window(run.timelines)
    anchor = run.manifest.get("anchor")
    if whole is None or not isinstance(anchor, Mapping) or not histograms:
        return
    wall = WallAnchor(int(anchor["monotonic_ns"]), int(anchor["unix_ns"]))
    write_interval_log(
        path, histograms, wall.unix_ns_at(whole.start_ns), wall.unix_ns_at(whole.end_ns)
    )


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old content or the new, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _experiment_analyse() -> Analyse:
    # Imported only here: a load run's report does without the experiments.
    from phasemeter.experiments.interference import analyse

    return analyse


def _planner_analyse() -> Callable[[RunRecords], PlannerFinding]:
    from phasemeter.experiments.planner import analyse

    return analyse
