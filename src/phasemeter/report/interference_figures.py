"""The drawings of an interference run: rasters, gap curves, exposures, arms side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from phasemeter.analysis.finding import Arm, Exposure, Finding
from phasemeter.analysis.phases import (
    INJECT,
    background_gaps_ns,
    injected_topologies,
    is_injected,
    marks_of,
    timelines_of,
)
from phasemeter.analysis.records import RunRecords
from phasemeter.report.curves import percentile_curve, percentile_figure
from phasemeter.report.figure import Figure, Trace, axis, colours, figure, log_ms_axis
from phasemeter.report.raster import Raster, token_raster
from phasemeter.report.tables import arms_beside_ramp

_PERCENTILE_MARKS = (("p50", "circle"), ("p90", "diamond"), ("p99", "line-ns-open"))


def inject_raster(run: RunRecords, topology: str, colour_of: Mapping[str, str]) -> Raster | None:
    """Draw the first run of an arm's injection with the most users; None where it has no phases or no responses.

    Background streams are the lower rows, injected prompts the upper ones.
    """
    phases = [m for m in marks_of(run, topology, INJECT) if m.phase != "prime"]
    if not phases:
        return None
    repeat = min(mark.repeat for mark in phases)
    users = max(mark.users or 0 for mark in phases)
    phases = [mark for mark in phases if (mark.repeat, mark.users or 0) == (repeat, users)]
    start_ns = min(mark.start_ns for mark in phases)
    timelines = [
        t
        for t in timelines_of(run, topology, INJECT, repeat, phases[0].users)
        if t.ended_ns > start_ns
    ]
    if not timelines:
        return None
    timelines.sort(key=lambda t: (is_injected(t), t.started_ns))
    injected = [timeline for timeline in timelines if is_injected(timeline)]
    return token_raster(
        timelines,
        colour_of,
        origin_ns=start_ns,
        origin=f"the {phases[0].phase} began",
        shaded=injected,
        marks=phases,
    )


def gap_curves(run: RunRecords) -> Figure:
    """Draw background gap percentiles of every arm, before (dashed) and during the injection."""
    traces: list[Trace] = []
    for topology, colour in topology_colours(run).items():
        for phase, dash in (("baseline", "dot"), ("inject", "solid")):
            gaps_ns = background_gaps_ns(run, topology, phase)
            if gaps_ns.size:
                traces.append(percentile_curve(f"{topology}, {phase}", gaps_ns, colour, dash=dash))
    return percentile_figure(traces, "gap of background streams, ms")


def interference_curve(run: RunRecords, exposures: Sequence[Exposure]) -> Figure:
    """Draw the longest background gap during each injected prompt over the prompt's length."""
    traces: list[Trace] = []
    lengths = [exposure.prompt_tokens for exposure in exposures]
    for topology, colour in topology_colours(run).items():
        mine = [exposure for exposure in exposures if exposure.arm == topology]
        if mine:
            traces.append(_exposure_dots(topology, mine, colour))
        baseline_ns = background_gaps_ns(run, topology, "baseline")
        if baseline_ns.size and lengths:
            level_ms = float(np.quantile(baseline_ns, 0.99, method="inverted_cdf")) / 1e6
            traces.append(_level(f"{topology}: p99 before", lengths, level_ms, colour))
    return figure(
        traces,
        xaxis=axis("length of the injected prompt, tokens", rangemode="tozero"),
        yaxis=log_ms_axis("longest background gap, ms"),
        height=420,
    )


def topology_colours(run: RunRecords) -> dict[str, str]:
    """Return the colour of every arm with an injection."""
    return colours(injected_topologies(run))


def _exposure_dots(topology: str, exposures: Sequence[Exposure], colour: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{topology} (n = {len(exposures)})",
        "x": [exposure.prompt_tokens for exposure in exposures],
        "y": [round(exposure.longest_gap_ms, 4) for exposure in exposures],
        "marker": {"color": colour, "size": 9, "opacity": 0.75},
        "hovertemplate": "%{x:,} tokens: %{y:,.1f} ms<extra>" + topology + "</extra>",
    }


def _level(name: str, lengths: Sequence[int], level_ms: float, colour: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [0, max(lengths)],
        "y": [round(level_ms, 4)] * 2,
        "line": {"color": colour, "width": 1.6, "dash": "dot"},
        "hovertemplate": "%{y:,.2f} ms<extra>" + name + "</extra>",
    }


def ttft_by_arm(finding: Finding) -> Figure:
    """Draw p50, p90 and p99 of TTFT for each class under each arm and condition but a ramp's levels."""
    arms = arms_beside_ramp(finding.arms)
    rows = [
        (f"{class_name} · {arm.name}", class_name, summary["metrics"]["ttft"])
        for class_name in sorted({name for arm in arms for name in arm.classes})
        for arm in arms
        if (summary := arm.classes.get(class_name)) is not None
        and summary["metrics"]["ttft"]["count"]
    ]
    colour_of = colours(class_name for _, class_name, _ in rows)
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "showlegend": False,
            "hoverinfo": "skip",
            "x": [row["p50"], row["p99"]],
            "y": [label, label],
            "line": {"color": colour_of[class_name], "width": 2},
        }
        for label, class_name, row in rows
    ]
    traces += [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [row[name] for _, _, row in rows],  # type: ignore[literal-required]
            "y": [label for label, _, _ in rows],
            "marker": {
                "symbol": symbol,
                "size": 12,
                "color": [colour_of[class_name] for _, class_name, _ in rows],
                "line": {
                    "width": 3 if "open" in symbol else 0,
                    "color": [colour_of[class_name] for _, class_name, _ in rows],
                },
            },
            "hovertemplate": name + ": %{x:,.1f} ms<extra>%{y}</extra>",
        }
        for name, symbol in _PERCENTILE_MARKS
        if rows
    ]
    return figure(
        traces,
        xaxis=log_ms_axis("time to first token, ms"),
        yaxis=axis("", autorange="reversed"),
        height=150 + 30 * max(len(rows), 3),
    )


def throughput_by_arm(arms: Sequence[Arm]) -> Figure:
    """Draw output tokens per second of each arm over its whole measured time."""
    rated = [
        (arm, rate) for arm in arms_beside_ramp(arms) if (rate := _tokens_per_s(arm)) is not None
    ]
    colour_of = colours(arm.topology for arm, _ in rated)
    trace: Trace = {
        "type": "bar",
        "orientation": "h",
        "x": [round(rate, 2) for _, rate in rated],
        "y": [arm.name for arm, _ in rated],
        "marker": {"color": [colour_of[arm.topology] for arm, _ in rated]},
        "text": [_rate_label(arm, rate) for arm, rate in rated],
        "textposition": "auto",
        "hovertemplate": "%{y}: %{x:,.1f} tokens/s<extra></extra>",
    }
    return figure(
        [trace],
        xaxis=axis("output tokens per second", rangemode="tozero"),
        yaxis=axis("", autorange="reversed"),
        height=150 + 32 * max(len(rated), 3),
        showlegend=False,
    )


def _tokens_per_s(arm: Arm) -> float | None:
    whole = arm.throughput["whole"]
    return None if whole is None else whole["output_tokens_per_s"]


def _rate_label(arm: Arm, rate: float) -> str:
    if not arm.gpus:
        return f"{rate:,.0f}"
    return f"{rate:,.0f} ({rate / arm.gpus:,.0f} per GPU)"
