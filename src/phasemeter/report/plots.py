"""Which drawings a page shows, in which order, and what each one is said to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from phasemeter.analysis.calibration import Calibration
from phasemeter.analysis.engine_steps import EngineSteps
from phasemeter.analysis.finding import Finding
from phasemeter.analysis.phases import injected_topologies
from phasemeter.analysis.planner_finding import PlannerFinding
from phasemeter.analysis.ramp_levels import RampLevel
from phasemeter.analysis.records import RunRecords
from phasemeter.analysis.samples import Samples, class_of
from phasemeter.analysis.window import steady_window, whole_window
from phasemeter.report.about import CALIBRATE, kind_of
from phasemeter.report.calibration_figures import curve_figure, decode_figure
from phasemeter.report.curves import gap_percentiles, ttft_distribution
from phasemeter.report.figure import Figure, colours
from phasemeter.report.inject_figures import gaps_over_length, stall_lengths
from phasemeter.report.interference_figures import (
    gap_curves,
    inject_raster,
    interference_curve,
    throughput_by_arm,
    ttft_by_arm,
)
from phasemeter.report.planner_figures import (
    phases_over_users,
    throughput_by_split,
    topologies_over_users,
)
from phasemeter.report.ramp_figures import (
    gap_over_users,
    ramp_classes,
    throughput_over_users,
    ttft_over_users,
)
from phasemeter.report.raster import token_raster
from phasemeter.report.rates import token_rate
from phasemeter.report.steps_figure import steps_figure
from phasemeter.report.tables import arms_beside_ramp

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Plot:
    """One drawing of a page.

    Attributes:
        name: Identifier within the page.
        title: Heading.
        lead: What it shows, in a sentence or two.
        figure: The drawing; None where there is nothing to draw.
        note: What was left out, or None.
        key: Whether it stands at the top, before the factors.
    """

    name: str
    title: str
    lead: str
    figure: Figure | None
    note: str | None = None
    key: bool = False


def load_plots(run: RunRecords, samples: Mapping[str, Samples]) -> list[Plot]:
    """Return the drawings of a load run."""
    colour_of = _class_colours(run)
    whole = whole_window(run.timelines)
    rows = sorted(run.timelines, key=lambda timeline: timeline.started_ns)
    raster = None if whole is None else token_raster(rows, colour_of, origin_ns=whole.start_ns)
    return [
        Plot(
            "raster",
            "Token raster",
            "One row a request, first started at the bottom; one tick a token event; the pale bar is "
            "the wait from the request sent to its first token. A column of gaps across rows is a "
            "pause that everyone had.",
            raster.figure if raster else None,
            raster.note if raster else None,
        ),
        Plot(
            "gaps",
            "Gap percentiles",
            "Time between token events of different reads. Each step to the right is the next nine of "
            "the percentile, as HdrHistogram plots do.",
            _drawn(gap_percentiles(_metric(samples, "gap"), colour_of)),
        ),
        Plot(
            "ttft",
            "Time to first token",
            "Share of the requests that had their first token within a time.",
            _drawn(ttft_distribution(_metric(samples, "ttft"), colour_of)),
        ),
        Plot(
            "rate",
            "Tokens per second over time",
            "All responses, whatever their outcome. The grey stretch is the steady window.",
            None
            if whole is None
            else token_rate(run.timelines, colour_of, whole, steady_window(run.timelines)),
        ),
    ]


def planner_plots(finding: PlannerFinding) -> list[Plot]:
    """Return the drawings of a planner's run."""
    curves = finding.curves or {}
    return [
        Plot(
            "splits",
            "Throughput by topology",
            "Bars: what is predicted from the rates of each phase alone, the best split in another "
            "colour. Diamonds: what was measured. Whiskers: 95 % intervals.",
            _drawn(throughput_by_split(finding)),
            key=True,
        ),
        Plot(
            "phases",
            "Each phase alone, one instance",
            "Prompt tokens read, or output tokens written, per second in the search. Where the line is "
            "flat, more users bring no more.",
            _drawn(phases_over_users(curves)),
        ),
        Plot(
            "searched",
            "Topologies under the mix",
            "Requests per second in the search.",
            _drawn(topologies_over_users(curves)),
        ),
    ]


def interference_plots(run: RunRecords, finding: Finding) -> list[Plot]:
    """Return the drawings of an interference run."""
    return [
        *(_inject_plots(run, finding) if injected_topologies(run) else ()),
        *(_ramp_plots(finding.ramp) if finding.ramp else ()),
        *(_arm_plots(finding) if arms_beside_ramp(finding.arms) or not finding.ramp else ()),
    ]


def _ramp_plots(levels: Sequence[RampLevel]) -> list[Plot]:
    plots = []
    for number, name in enumerate(ramp_classes(levels), start=1):
        plots += [
            Plot(
                f"ramp-ttft{number}",
                f"Time to first token against users: {name}",
                "Percentiles of the requests that were started in the measured time of a level, with 95 % "
                "intervals where there are enough of them.",
                _drawn(ttft_over_users(levels, name)),
            ),
            Plot(
                f"ramp-gap{number}",
                f"Gaps against users: {name}",
                "Percentiles of the time between token events in the measured time of a level.",
                _drawn(gap_over_users(levels, name)),
            ),
        ]
    return [
        *plots,
        Plot(
            "ramp-throughput",
            "Throughput against users",
            "Output tokens per second of the ok responses of all classes, in the measured time of a level.",
            _drawn(throughput_over_users(levels)),
        ),
    ]


def _arm_plots(finding: Finding) -> list[Plot]:
    return [
        Plot(
            "ttft",
            "Time to first token by class and arm",
            "p50, p90 and p99 of each class: alone and together with the other class, on each "
            "topology.",
            _drawn(ttft_by_arm(finding)),
        ),
        Plot(
            "throughput",
            "Throughput by arm",
            "Output tokens per second of the ok responses over each arm's whole time.",
            throughput_by_arm(finding.arms) if finding.arms else None,
        ),
    ]


def _inject_plots(run: RunRecords, finding: Finding) -> list[Plot]:
    return [
        *_inject_rasters(run),
        Plot(
            "gaps",
            "Gaps of the background streams, before and during the injection",
            "Percentiles of the time between token events. Dotted: the streams alone. Solid: while "
            "prompts are injected. The further apart at the right, the longer the others stall.",
            _drawn(gap_curves(run)),
        ),
        Plot(
            "exposures",
            "Interference curve",
            "Each dot is one injection: the longest background gap that overlaps its [sent, "
            "first token], over its length. Dotted: p99 of the gaps before the injection.",
            _drawn(interference_curve(run, finding.exposures)),
        ),
        *_grid_plots(finding),
    ]


def _grid_plots(finding: Finding) -> list[Plot]:
    plots = []
    for number, topology in enumerate(dict.fromkeys(cell.arm for cell in finding.cells), start=1):
        cells = [cell for cell in finding.cells if cell.arm == topology]
        plots.append(
            Plot(
                f"grid{number}",
                f"Exposed gaps over prompt length: {topology}",
                "Percentiles of the background gaps that overlap an injection, and the median over "
                "injections of the longest one; a click on its name shows p50. Shaded: p50 to p99 of the "
                "same streams' gaps before; outlined: after.",
                _drawn(gaps_over_length(cells)) if any(c.overlapped for c in cells) else None,
            )
        )
    if any(effect.stalls["inject"].curve_ms for effect in finding.effects):
        plots.append(
            Plot(
                "stalls",
                "How long stalls were",
                "Share of the stalls up to a length: background gaps longer than five times their "
                "stream's own median, while prompts were injected.",
                _drawn(stall_lengths(finding.effects)),
            )
        )
    return plots


def calibration_plots(run: RunRecords, calibration: Calibration) -> list[Plot]:
    """Return the drawings of a calibration, or of the one that a run was given beside its responses."""
    is_calibration = kind_of(run) == CALIBRATE
    curve = Plot(
        "curve",
        "Time to first token over prompt length",
        "Each dot is one prompt alone on the server, the lines are fitted to the medians and the minima."
        if is_calibration
        else "Each dot is one request of this run; the lines are what the idle server took. What lies above "
        "is queueing, and steps shared with others.",
        curve_figure(calibration, run.timelines),
        key=is_calibration,
    )
    steps = Plot(
        "decode",
        "Decode step over number of streams",
        "Median gap of so many streams without any prompt beside them.",
        decode_figure(calibration),
        key=True,
    )
    return [curve, steps] if is_calibration else [curve]


def steps_plots(engines: Sequence[EngineSteps]) -> list[Plot]:
    """Return the drawing of the steps around one prompt; empty where no chunks were counted."""
    drawn = steps_figure(engines)
    if drawn is None:
        return []
    around, told = drawn
    return [
        Plot(
            "steps",
            "Engine steps around a prompt",
            "Told from the arrivals of the streams beside it: each bar is one step of the engine, as "
            "wide as it is long. The prompt's chunks are the longer steps.",
            around,
            f"Drawn: {told}, the prompt with the most chunks.",
        )
    ]


def _inject_rasters(run: RunRecords) -> list[Plot]:
    colour_of = _class_colours(run)
    plots = []
    for number, topology in enumerate(injected_topologies(run), start=1):
        raster = inject_raster(run, topology, colour_of)
        plots.append(
            Plot(
                f"raster{number}",
                f"Token raster: {topology}",
                "The lower rows are the background streams, the upper ones the injected prompts; one "
                "tick a token event. Shaded: from a prompt sent to its first token. Where rows are "
                "empty under the shade, the other users wait for that prompt. First repeat.",
                raster.figure if raster else None,
                raster.note if raster else None,
                key=True,
            )
        )
    return plots


def _class_colours(run: RunRecords) -> dict[str, str]:
    return colours(sorted({class_of(timeline.tags) for timeline in run.timelines}))


def _metric(samples: Mapping[str, Samples], name: str) -> dict[str, np.ndarray]:
    return {class_name: metrics[name] for class_name, metrics in samples.items()}


def _drawn(figure: Figure) -> Figure | None:
    """Return the figure, or None where it holds no trace."""
    return figure if figure["data"] else None
