"""Drawings of a calibration: first tokens over prompt length with the curve, steps over streams."""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.analysis.calibration import PROMPTS, Calibration
from phasemeter.analysis.samples import by_class
from phasemeter.analysis.ttft_curve import prompt_and_wait
from phasemeter.core.timeline import Timeline
from phasemeter.report.figure import MUTED_COLOUR, PALETTE, Figure, Trace, axis, colours, figure

_POINTS = 60
_MOST_DOTS = 5_000


def curve_figure(calibration: Calibration, timelines: Sequence[Timeline]) -> Figure:
    """Draw the curves, and a dot for each response over its prompt's length, by class.

    Of a calibration only the prompts that were alone.
    """
    alone = [t for t in timelines if t.tags.get("condition", PROMPTS) == PROMPTS]
    is_calibration = any("condition" in timeline.tags for timeline in timelines)
    groups = {"prompts alone": alone} if is_calibration else by_class(alone)
    colour_of = colours(groups)
    traces: list[Trace] = []
    longest = max(one.prompt_tokens for one in calibration.prompts)
    for name, members in groups.items():
        told = [one for t in members if (one := prompt_and_wait(t)) is not None]
        told = told[:: max(len(told) // _MOST_DOTS, 1)]
        longest = max([longest, *(tokens for tokens, _ in told)])
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [tokens for tokens, _ in told],
                "y": [round(ms, 4) for _, ms in told],
                "marker": {"color": colour_of[name], "size": 7, "opacity": 0.6},
                "hovertemplate": "%{x:,} tokens: %{y:,.1f} ms<extra>" + _safe(name) + "</extra>",
            }
        )
    lengths = [round(longest * point / _POINTS) for point in range(_POINTS + 1)]
    for name, curve, dash in (
        ("idle server, typical", calibration.typical, "solid"),
        ("idle server, fastest", calibration.fastest, "dot"),
    ):
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": lengths,
                "y": [round(curve.at_ms(tokens), 4) for tokens in lengths],
                "line": {"color": MUTED_COLOUR, "width": 2, "dash": dash},
                "hovertemplate": "%{x:,} tokens: %{y:,.1f} ms<extra>" + name + "</extra>",
            }
        )
    return figure(
        traces,
        xaxis=axis("prompt, tokens", rangemode="tozero"),
        yaxis=axis("from the request sent to its first token, ms", rangemode="tozero"),
    )


def decode_figure(calibration: Calibration) -> Figure | None:
    """Draw the median step over the number of streams; None where none was measured."""
    if not calibration.decode:
        return None
    trace: Trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [one.streams for one in calibration.decode],
        "y": [round(one.step_ms, 4) for one in calibration.decode],
        "line": {"color": PALETTE[0], "width": 2.2},
        "marker": {"size": 9},
        "hovertemplate": "%{x} streams: %{y:,.2f} ms<extra></extra>",
    }
    return figure(
        [trace],
        xaxis=axis("streams", rangemode="tozero"),
        yaxis=axis("step, ms", rangemode="tozero"),
        height=300,
        showlegend=False,
    )


def _safe(name: str) -> str:
    return name.replace("<", "&lt;")
