"""Distributions as curves: percentile curves with a logarithmic tail, and shares of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.report.figure import Figure, Trace, axis, figure, log_ms_axis

if TYPE_CHECKING:
    import numpy.typing as npt

_CURVE_POINTS = 120
_SHARE_POINTS = 300
_TAIL_TICKS = ((1, "0 %"), (2, "50 %"), (10, "90 %"), (100, "99 %"), (1_000, "99.9 %"))
_TAIL_TICKS_FAR = ((10_000, "99.99 %"), (100_000, "99.999 %"))


def percentile_curve(
    name: str, values_ns: npt.NDArray[np.int64], colour: str, *, dash: str = "solid"
) -> Trace:
    """Return the percentile curve of non-empty samples, over 1 / (1 - percentile).

    The curve ends at 1 - 1/n: beyond it the samples say nothing.
    """
    inverse = np.unique(np.geomspace(1, max(values_ns.size, 2), _CURVE_POINTS))
    shares = 1 - 1 / inverse
    heights_ns = np.quantile(values_ns, shares, method="inverted_cdf")
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name} (n = {values_ns.size:,})",
        "x": inverse.round(4).tolist(),
        "y": (heights_ns / 1e6).round(4).tolist(),
        "text": [f"{100 * share:.4g} %" for share in shares.tolist()],
        "line": {"color": colour, "width": 2.2, "dash": dash},
        "hovertemplate": "%{text}: %{y:,.2f} ms<extra>%{fullData.name}</extra>",
    }


def percentile_figure(traces: list[Trace], y_title: str) -> Figure:
    """Return percentile curves on axes whose x axis gives each further nine equal room."""
    ticks = [*_TAIL_TICKS, *_TAIL_TICKS_FAR]
    return figure(
        traces,
        xaxis=axis(
            "percentile",
            type="log",
            tickvals=[value for value, _ in ticks],
            ticktext=[text for _, text in ticks],
        ),
        yaxis=log_ms_axis(y_title),
    )


def gap_percentiles(
    gaps_ns: Mapping[str, npt.NDArray[np.int64]], colour_of: Mapping[str, str]
) -> Figure:
    """Draw the gap percentiles of each class that has any."""
    traces = [
        percentile_curve(name, values, colour_of[name])
        for name, values in gaps_ns.items()
        if values.size
    ]
    return percentile_figure(traces, "gap between token events, ms")


def share_curve(
    name: str, values_ns: npt.NDArray[np.int64], colour: str, *, dash: str = "solid"
) -> Trace:
    """Return the share of samples that do not exceed a value, over that value in ms."""
    ordered = np.sort(values_ns)
    ranks = np.unique(np.linspace(1, ordered.size, min(ordered.size, _SHARE_POINTS)).astype(int))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name} (n = {ordered.size:,})",
        "x": (ordered[ranks - 1] / 1e6).round(4).tolist(),
        "y": (100 * ranks / ordered.size).round(3).tolist(),
        "line": {"color": colour, "width": 2.2, "shape": "hv", "dash": dash},
        "hovertemplate": "%{y:.1f} % within %{x:,.1f} ms<extra>%{fullData.name}</extra>",
    }


def ttft_distribution(
    ttft_ns: Mapping[str, npt.NDArray[np.int64]], colour_of: Mapping[str, str]
) -> Figure:
    """Draw, for each class that has any, the share of requests with a TTFT up to x."""
    traces = [
        share_curve(name, values, colour_of[name])
        for name, values in ttft_ns.items()
        if values.size
    ]
    return figure(
        traces,
        xaxis=log_ms_axis("time to first token, ms"),
        yaxis=axis("share of requests, %", range=[0, 103]),
    )
