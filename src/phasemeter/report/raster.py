"""The token raster: a row a request, a tick a token event, a bar while the first token is awaited."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasemeter.analysis.records import Mark
from phasemeter.analysis.samples import class_of
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.report.figure import (
    ALERT_COLOUR,
    MUTED_COLOUR,
    Figure,
    Trace,
    axis,
    figure,
    translucent,
)

MAX_ROWS = 160
MAX_TICKS = 30_000
MAX_SHADES = 150

_HALF_TICK = 0.38


@dataclass(frozen=True, slots=True)
class Raster:
    """A raster and what the reader must know of it.

    Attributes:
        figure: The drawing.
        note: What was left out, or None.
    """

    figure: Figure
    note: str | None


def token_raster(
    timelines: Sequence[Timeline],
    colour_of: Mapping[str, str],
    *,
    origin_ns: int,
    origin: str = "the start",
    shaded: Sequence[Timeline] = (),
    marks: Sequence[Mark] = (),
) -> Raster:
    """Draw responses over time.

    Args:
        timelines: The responses, in the order of their rows from below.
        colour_of: Colour of each request class.
        origin_ns: Instant 0 of the time axis.
        origin: That instant in words.
        shaded: Responses whose [sent, first token] is shaded across all rows.
        marks: Phases, drawn as named bands.
    """
    drawn, note = _thin(timelines)
    rows = dict(enumerate(drawn))
    classes = dict.fromkeys(class_of(timeline.tags) for timeline in drawn)
    traces: list[Trace] = []
    for name in classes:
        members = {row: t for row, t in rows.items() if class_of(t.tags) == name}
        traces.append(_waits(name, members, colour_of[name], origin_ns))
        traces.append(_ticks(name, members, colour_of[name], origin_ns))
    traces.extend(_failures(rows, origin_ns))
    top = len(drawn) + (1.5 if marks else 0)
    layout = figure(
        traces,
        xaxis=axis(f"time since {origin}, s", showgrid=True),
        yaxis=axis("requests", range=[-1, top], showticklabels=False, showgrid=False),
        height=_height_px(len(drawn)),
        shapes=[*_shades(shaded, origin_ns), *_phase_lines(marks, origin_ns)],
        annotations=_phase_names(marks, origin_ns, top),
    )
    return Raster(layout, note)


def _height_px(rows: int) -> int:
    """Give few rows more room each than many."""
    return min(190 + (20 if rows <= 20 else 9) * rows, 900) if rows > 5 else 300


def _thin(timelines: Sequence[Timeline]) -> tuple[list[Timeline], str | None]:
    """Leave out whole rows, never single tokens: a missing tick would look like a pause."""
    ticks = sum(len(timeline.events) for timeline in timelines)
    step = max(math.ceil(len(timelines) / MAX_ROWS), math.ceil(ticks / MAX_TICKS), 1)
    drawn = list(timelines[::step])
    if step == 1:
        return drawn, None
    return drawn, f"Thinned out: {len(drawn)} of {len(timelines)} requests are drawn (1 in {step})."


def _seconds(t_ns: int, origin_ns: int) -> float:
    return round((t_ns - origin_ns) / 1e9, 4)


def _wait_of(timeline: Timeline) -> tuple[int, int]:
    start_ns = timeline.started_ns if timeline.sent_ns is None else timeline.sent_ns
    first_ns = timeline.first_token_ns
    return start_ns, timeline.ended_ns if first_ns is None else first_ns


def _waits(name: str, rows: Mapping[int, Timeline], colour: str, origin_ns: int) -> Trace:
    x: list[float | None] = []
    y: list[int | None] = []
    for row, timeline in rows.items():
        start_ns, end_ns = _wait_of(timeline)
        x += [_seconds(start_ns, origin_ns), _seconds(end_ns, origin_ns), None]
        y += [row, row, None]
    return _path(f"{name}: waits for its first token", x, y, translucent(colour, 0.45), 4)


def _ticks(name: str, rows: Mapping[int, Timeline], colour: str, origin_ns: int) -> Trace:
    x: list[float | None] = []
    y: list[float | None] = []
    for row, timeline in rows.items():
        for event in timeline.events:
            t_s = _seconds(event.t_ns, origin_ns)
            x += [t_s, t_s, None]
            y += [row - _HALF_TICK, row + _HALF_TICK, None]
    return _path(f"{name}: token event", x, y, colour, 1.4)


def _path(
    name: str, x: Sequence[object], y: Sequence[object], colour: str, width_px: float
) -> Trace:
    """One line with breaks: a single path in the page, however many ticks it has."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": colour, "width": width_px, "simplify": False},
        "connectgaps": False,
        "hovertemplate": "%{x:.3f} s<extra>" + name.replace("<", "&lt;") + "</extra>",
    }


def _failures(rows: Mapping[int, Timeline], origin_ns: int) -> list[Trace]:
    failed = {row: t for row, t in rows.items() if t.outcome is not Outcome.OK}
    if not failed:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "ended not ok",
            "x": [_seconds(timeline.ended_ns, origin_ns) for timeline in failed.values()],
            "y": list(failed),
            "text": [timeline.outcome.value for timeline in failed.values()],
            "marker": {"symbol": "x", "size": 8, "color": ALERT_COLOUR},
            "hovertemplate": "%{x:.3f} s: %{text}<extra></extra>",
        }
    ]


def _shades(shaded: Sequence[Timeline], origin_ns: int) -> list[dict[str, object]]:
    return [
        {
            "type": "rect",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "x0": _seconds(start_ns, origin_ns),
            "x1": _seconds(end_ns, origin_ns),
            "fillcolor": translucent(ALERT_COLOUR, 0.16),
            "line": {"width": 0},
            "layer": "below",
        }
        for start_ns, end_ns in map(_wait_of, shaded[:MAX_SHADES])
    ]


def _phase_lines(marks: Sequence[Mark], origin_ns: int) -> list[dict[str, object]]:
    return [
        {
            "type": "line",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "x0": _seconds(mark.start_ns, origin_ns),
            "x1": _seconds(mark.start_ns, origin_ns),
            "line": {"color": MUTED_COLOUR, "width": 1, "dash": "dot"},
        }
        for mark in marks
    ]


def _phase_names(marks: Sequence[Mark], origin_ns: int, top: float) -> list[dict[str, object]]:
    return [
        {
            "text": mark.phase,
            "x": _seconds((mark.start_ns + mark.end_ns) // 2, origin_ns),
            "y": top - 0.2,
            "yanchor": "top",
            "showarrow": False,
            "font": {"size": 12, "color": MUTED_COLOUR},
        }
        for mark in marks
    ]
