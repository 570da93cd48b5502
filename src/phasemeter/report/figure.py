"""Plotly figures as plain dictionaries, in one look.

Colours of text and grid are set in the page, which follows the reader's light or dark theme; the trace
colours below keep their contrast on both and stay apart for colour-blind readers (after Okabe and Ito).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Trace = dict[str, object]
Figure = dict[str, object]

PALETTE = ("#1b85d6", "#e3820a", "#12a178", "#cf5fa3", "#8f74d9", "#4fb6e8", "#a38a1f")
ALERT_COLOUR = "#d5482a"
MUTED_COLOUR = "#8a94a3"


def colours(names: Iterable[str]) -> dict[str, str]:
    """Give each name its colour, in order; more names than colours start over."""
    return {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(dict.fromkeys(names))}


def translucent(colour: str, opacity: float) -> str:
    """Return a `#rrggbb` colour as rgba text."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def axis(title: str, **settings: object) -> dict[str, object]:
    """Return an axis with its title (unit included)."""
    return {"title": {"text": title}, "automargin": True, "zeroline": False, **settings}


def figure(
    traces: Sequence[Trace],
    *,
    xaxis: dict[str, object],
    yaxis: dict[str, object],
    height: int = 380,
    **layout: object,
) -> Figure:
    """Return a figure with its legend above the plot."""
    return {
        "data": list(traces),
        "layout": {
            "xaxis": xaxis,
            "yaxis": yaxis,
            "height": height,
            "margin": {"l": 70, "r": 24, "t": 72, "b": 56},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "hovermode": "closest",
            **layout,
        },
    }


def log_range(values: Sequence[float]) -> list[float]:
    """Return the ends of a logarithmic axis that values lie within and that are labelled: 1, 2 or 5.

    Left to itself an axis ends at its values, and has no label at all where these lie close together.
    """
    ends = [round(mantissa * 10.0**power, 9) for power in range(-6, 10) for mantissa in (1, 2, 5)]
    low, high = min(values), max(values)
    below = max((end for end in ends if end < low), default=low)
    above = min((end for end in ends if end > high), default=high)
    return [math.log10(below), math.log10(above)]


def log_ms_axis(title: str, **settings: object) -> dict[str, object]:
    """Return a logarithmic axis of milliseconds with plain numbers at 1, 2 and 5."""
    return axis(title, type="log", dtick="D2", tickformat=",~r", minor={"ticks": ""}, **settings)
