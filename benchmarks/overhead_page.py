"""The costs of tracing SDKs as one page with plots; it holds all that it shows and fetches nothing."""

from __future__ import annotations

from html import escape
from pathlib import Path

import plotly.graph_objects as go

from benchmarks.sdk_costs import BUDGET_SHARE, Overhead

_OURS = "#d1495b"
_OTHERS = "#4a6fa5"
_BUDGET_MS = 1.0
_STYLE = (
    "body{font:16px system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;"
    "color:#222}h1{font-size:1.5rem}p{max-width:48rem}"
)


def write_overhead_page(overhead: Overhead, path: Path) -> None:
    """Write the page.

    Raises:
        OSError: If it cannot be written.
    """
    figures = [
        _added(overhead, 100),
        _added(overhead, 2000),
        _holds(overhead),
    ]
    parts = [
        figure.to_html(full_html=False, include_plotlyjs=number == 0, config={"responsive": True})
        for number, figure in enumerate(figures)
    ]
    machine = ", ".join(f"{name} {value}" for name, value in overhead.machine.items())
    path.write_text(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<title>What tracing SDKs cost</title><style>{_STYLE}</style></head><body>"
        "<h1>What tracing SDKs add to the openai client</h1>"
        f"<p>{escape(overhead.date)}; {escape(machine)}. CPU time of the whole process over the "
        "bare client's just before and after; bars are medians over rounds, whiskers the quartiles. "
        "Over loopback, one event a read. Dotted: phasemeter's budget (spans and HDR, without metrics), "
        f"{BUDGET_SHARE:.0%} of the bare client."
        f"</p>{''.join(parts)}</body></html>",
        encoding="utf-8",
    )


def _added(overhead: Overhead, chunks: int) -> go.Figure:
    figure = go.Figure()
    for how, pattern, side in (("sync", "", "left"), ("async", "/", "right")):
        bare = overhead.bare_us(how, chunks)
        if bare is not None:
            figure.add_vline(
                x=bare.median * BUDGET_SHARE,
                line_dash="dot",
                annotation_text=how,
                annotation_position=f"top {side}",
            )
        spreads = {name: overhead.added_us(name, how, chunks) for name in overhead.tools}
        known = {name: spread for name, spread in spreads.items() if spread is not None}
        figure.add_bar(
            orientation="h",
            y=list(known),
            x=[spread.median for spread in known.values()],
            error_x={
                "type": "data",
                "array": [spread.high - spread.median for spread in known.values()],
                "arrayminus": [spread.median - spread.low for spread in known.values()],
            },
            name=how,
            marker={"color": [_colour(name) for name in known], "pattern": {"shape": pattern}},
        )
    _lay_out(figure, f"Added CPU a chunk, streams of {chunks:,} chunks", "us a chunk", overhead)
    return figure


def _holds(overhead: Overhead) -> go.Figure:
    figure = go.Figure()
    names = list(overhead.baselines)
    for chunks, pattern in ((100, ""), (2000, "/")):
        holds = {name: overhead.hold(name, chunks) for name in names}
        known = {name: hold for name, hold in holds.items() if hold is not None}
        figure.add_bar(
            orientation="h",
            y=list(known),
            x=[hold.end_ms for hold in known.values()],
            name=f"{chunks:,} chunks",
            marker={"color": [_colour(name) for name in known], "pattern": {"shape": pattern}},
        )
    figure.add_vline(x=_BUDGET_MS, line_dash="dot")
    _lay_out(
        figure, "Longest that the event loop is held in one go at a stream's end", "ms", overhead
    )
    figure.update_xaxes(type="log")
    return figure


def _lay_out(figure: go.Figure, title: str, unit: str, overhead: Overhead) -> None:
    figure.update_layout(
        title=title,
        barmode="group",
        height=120 + 46 * len(overhead.baselines),
        template="plotly_white",
        xaxis={"title": unit},
        yaxis={"autorange": "reversed", "automargin": True},
        legend={"orientation": "h", "y": 1.02, "x": 1, "xanchor": "right"},
    )


def _colour(name: str) -> str:
    return _OURS if name.startswith("phasemeter") else "#999999" if "bare" in name else _OTHERS
