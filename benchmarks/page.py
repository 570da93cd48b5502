"""The comparison as one page with plots; it holds all that it shows and fetches nothing."""

from __future__ import annotations

from html import escape
from pathlib import Path

import plotly.graph_objects as go

from benchmarks.results import Comparison, Result, by_tool, summarise
from benchmarks.table import COLUMNS, cell

_FLOOR = 0.001  # below the resolution of every tool; what a logarithmic axis can show of a zero


def write_page(comparison: Comparison, path: Path) -> None:
    """Write the page.

    Raises:
        OSError: If it cannot be written.
    """
    figures = [_bars(comparison), _costs(comparison)]
    if comparison.ladder:
        figures.append(_ladder(comparison))
    parts = [
        figure.to_html(full_html=False, include_plotlyjs=number == 0)
        for number, figure in enumerate(figures)
    ]
    machine = ", ".join(f"{name} {value}" for name, value in comparison.machine.items())
    path.write_text(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<title>Load testers against a server that knows the truth</title>"
        "<style>body{font:16px system-ui,sans-serif;max-width:70rem;margin:2rem auto;"
        "padding:0 1rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
        "td,th{padding:.3rem .7rem;border-bottom:1px solid #ccc;text-align:right}"
        "td:first-child,th:first-child{text-align:left}</style></head><body>"
        "<h1>Load testers against a server that knows the truth</h1>"
        f"<p>{escape(comparison.date)}; {escape(machine)}</p>{_table(comparison.rounds)}"
        f"{''.join(parts)}</body></html>",
        encoding="utf-8",
    )


def _table(results: list[Result]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for _, heading, _ in COLUMNS)
    rows = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{cell(summary[key], digits)}</td>" for key, _, digits in COLUMNS)
        + "</tr>"
        for name, runs in by_tool(results).items()
        for summary in [summarise(runs)]
    )
    return f"<table><tr><th>tool</th>{head}</tr>{rows}</table>"


def _bars(comparison: Comparison) -> go.Figure:
    """Errors of the percentiles, every round a point."""
    figure = go.Figure()
    for key, heading, _ in COLUMNS[:4]:
        tools, values = [], []
        for result in comparison.rounds:
            error = result.figures()[key]
            if error is not None:
                tools.append(result.tool)
                values.append(max(abs(error), _FLOOR))
        figure.add_box(x=tools, y=values, name=heading.replace("\n", " "), boxpoints="all")
    figure.update_layout(
        title="Error against the server's own log, each round",
        boxmode="group",
        yaxis={"type": "log", "title": "error, ms (logarithmic)"},
    )
    return figure


def _costs(comparison: Comparison) -> go.Figure:
    figure = go.Figure()
    groups = by_tool(comparison.rounds)
    values = [summarise(runs)["cpu_us_per_event"] for runs in groups.values()]
    figure.add_bar(x=list(groups), y=values, name="CPU time a token event")
    figure.update_layout(
        title="CPU time a token event while the load runs, whole process tree",
        yaxis={"title": "us"},
    )
    return figure


def _ladder(comparison: Comparison) -> go.Figure:
    figure = go.Figure()
    for name, runs in by_tool(comparison.ladder).items():
        points = [(run.users, run.error_ms("gap_p99_ms")) for run in runs]
        known = [(users, max(abs(error), _FLOOR)) for users, error in points if error is not None]
        if known:
            figure.add_scatter(
                x=[users for users, _ in known],
                y=[error for _, error in known],
                name=name,
                mode="lines+markers",
            )
    figure.add_hline(y=1.0, line_dash="dot")
    figure.update_layout(
        title="Error of the gap p99 against load",
        xaxis={"type": "log", "title": "streams at 50 tokens/s"},
        yaxis={"type": "log", "title": "error, ms (logarithmic)"},
    )
    return figure
