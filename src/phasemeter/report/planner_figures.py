"""The drawings of the planner: predicted throughput by split, and what the searches brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phasemeter.analysis.bootstrapped import Bootstrapped
from phasemeter.analysis.planner_finding import PlannerFinding, Point
from phasemeter.report.figure import (
    ALERT_COLOUR,
    MUTED_COLOUR,
    PALETTE,
    Figure,
    Trace,
    axis,
    colours,
    figure,
)

PREFILL, DECODE = "prefill", "decode"
"""Names of the searches that are measured in tokens; the others are topologies."""


def throughput_by_split(finding: PlannerFinding) -> Figure:
    """Draw what every topology is predicted to serve, and what those measured did."""
    predicted = {one.shape.name: one.requests_per_s for one in finding.predictions}
    measured = {
        one.arm if one.shape is None else one.shape.name: one.requests_per_s
        for one in finding.measured
    }
    for one in finding.measured:
        if one.prediction is not None:
            predicted.setdefault(one.prediction.shape.name, one.prediction.requests_per_s)
    is_best = [finding.best is not None and name == finding.best.shape.name for name in predicted]
    traces: list[Trace] = []
    if predicted:
        traces.append(
            {
                "type": "bar",
                "name": "predicted, without interference and hand-off",
                **_heights(predicted),
                "marker": {"color": [PALETTE[2] if one else PALETTE[0] for one in is_best]},
                "opacity": 0.75,
                "hovertemplate": "%{x}: %{y:,.2f} requests/s predicted<extra></extra>",
            }
        )
    if measured:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "measured",
                **_heights(measured),
                "marker": {"color": ALERT_COLOUR, "size": 13, "symbol": "diamond"},
                "hovertemplate": "%{x}: %{y:,.2f} requests/s measured<extra></extra>",
            }
        )
    names = list(dict.fromkeys([*predicted, *measured]))
    return figure(
        traces,
        xaxis=axis("topology", type="category", categoryorder="array", categoryarray=names),
        yaxis=axis("requests of the mix per second", rangemode="tozero"),
    )


def phases_over_users(curves: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw tokens per second of each phase alone against users, or streams, at the same time."""
    return _curves({name: curves.get(name, ()) for name in (PREFILL, DECODE)}, "tokens per second")


def topologies_over_users(curves: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw requests per second of each topology against users at the same time."""
    mine = {name: points for name, points in curves.items() if name not in (PREFILL, DECODE)}
    return _curves(mine, "requests of the mix per second")


def _curves(curves: Mapping[str, Sequence[Point]], y_title: str) -> Figure:
    colour_of = colours(curves)
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            **_heights({point.users: point.rate for point in sorted(points, key=_users)}),
            "line": {"color": colour_of[name], "width": 2.2},
            "marker": {"color": colour_of[name], "size": 8},
            "hovertemplate": "%{x} users: %{y:,.1f}/s<extra>" + name + "</extra>",
        }
        for name, points in curves.items()
        if points
    ]
    numbers = sorted({point.users for points in curves.values() for point in points})
    return figure(
        traces,
        xaxis=axis(
            "users at the same time",
            type="log",
            tickvals=numbers,
            ticktext=[f"{number:,}" for number in numbers],
            minor={"ticks": ""},
        ),
        yaxis=axis(y_title, rangemode="tozero"),
    )


def _users(point: Point) -> int:
    return point.users


def _heights(values: Mapping[str, Bootstrapped] | Mapping[int, Bootstrapped]) -> Trace:
    """Return x, y and the bars of the 95 % intervals."""
    bounds = [(one.value, *(one.ci95 or (one.value, one.value))) for one in values.values()]
    return {
        "x": list(values),
        "y": [round(value, 4) for value, _, _ in bounds],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [round(max(hi - value, 0), 4) for value, _, hi in bounds],
            "arrayminus": [round(max(value - lo, 0), 4) for value, lo, _ in bounds],
            "color": MUTED_COLOUR,
            "thickness": 1.4,
            "width": 5,
        },
    }
