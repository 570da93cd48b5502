"""Tokens per second over the time of a run, by class, with the steady window shaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from phasemeter.analysis.samples import by_class
from phasemeter.analysis.throughput import token_arrivals
from phasemeter.analysis.window import Window
from phasemeter.core.timeline import Timeline
from phasemeter.report.figure import MUTED_COLOUR, Figure, Trace, axis, figure, translucent

_MAX_BINS = 120
_NICE_WIDTHS_S = tuple(factor * 10.0**power for power in range(-2, 5) for factor in (1.0, 2.0, 5.0))


def token_rate(
    timelines: Sequence[Timeline],
    colour_of: Mapping[str, str],
    whole: Window,
    steady: Window | None,
) -> Figure:
    """Draw tokens per second of all responses, counted in bins of a round width.

    Token events are counted instead where a response does not tell its tokens.
    """
    width_s = bin_width_s(whole.duration_s)
    bins = int(np.ceil(whole.duration_s / width_s))
    edges_s = np.arange(bins + 1) * width_s
    arrivals = {name: token_arrivals(group) for name, group in by_class(timelines).items()}
    told = not any(np.isnan(tokens).any() for _, tokens in arrivals.values())
    traces: list[Trace] = []
    for name, (times_ns, tokens) in arrivals.items():
        weights = tokens if told else np.ones_like(tokens)
        seconds = (times_ns - whole.start_ns) / 1e9
        counts, _ = np.histogram(seconds, bins=edges_s, weights=weights)
        traces.append(_steps(name, edges_s, counts / width_s, colour_of[name]))
    unit = "tokens" if told else "token events"
    return figure(
        traces,
        xaxis=axis(f"time since the start, s (bins of {width_s:g} s)"),
        yaxis=axis(f"{unit} per second", rangemode="tozero"),
        shapes=[] if steady is None else [_shade(steady, whole.start_ns)],
    )


def bin_width_s(duration_s: float) -> float:
    """Return the smallest round width that needs no more than 120 bins."""
    wanted_s = duration_s / _MAX_BINS
    return next((width for width in _NICE_WIDTHS_S if width >= wanted_s), wanted_s)


def _steps(name: str, edges_s: np.ndarray, rates: np.ndarray, colour: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": edges_s.round(4).tolist(),
        "y": [*rates.round(3).tolist(), 0],
        "line": {"color": colour, "width": 2, "shape": "hv"},
        "hovertemplate": "%{x:.2f} s: %{y:,.1f} /s<extra>%{fullData.name}</extra>",
    }


def _shade(steady: Window, origin_ns: int) -> dict[str, object]:
    return {
        "type": "rect",
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "x0": (steady.start_ns - origin_ns) / 1e9,
        "x1": (steady.end_ns - origin_ns) / 1e9,
        "fillcolor": translucent(MUTED_COLOUR, 0.13),
        "line": {"width": 0},
        "layer": "below",
    }
