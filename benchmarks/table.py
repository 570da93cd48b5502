"""The comparison on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.results import Comparison, Result, by_tool, summarise

if TYPE_CHECKING:
    from rich.console import Console

UNKNOWN = "\u2013"

COLUMNS = (
    ("ttft_p50_error_ms", "TTFT p50\nerror ms", 2),
    ("ttft_p99_error_ms", "TTFT p99\nerror ms", 2),
    ("gap_p99_error_ms", "gap p99\nerror ms", 3),
    ("gap_max_error_ms", "gap max\nerror ms", 2),
    ("zero_gaps", "zero\ngaps", 0),
    ("cpu_us_per_event", "CPU us\na token", 0),
    ("cpu_s", "CPU s\nin all", 1),
    ("around_s", "wall s\naround", 1),
    ("peak_rss_mb", "memory\nMB", 0),
)


def show(comparison: Comparison, console: Console) -> None:
    """Print the tables of everything that was measured."""
    _show_rounds("medians over rounds", comparison.rounds, comparison, console)
    if comparison.busy:
        _show_rounds(
            "with a busy process on the client's core", comparison.busy, comparison, console
        )
    if comparison.rungs:
        table = Table(
            "tool", "highest streams", "first past it", "why", title="load, gap p99 error <= 1 ms"
        )
        for rung in comparison.rungs:
            table.add_row(rung.tool, cell(rung.users, 0), cell(rung.failed_at, 0), rung.why)
        console.print(table)


def _show_rounds(
    title: str, results: list[Result], comparison: Comparison, console: Console
) -> None:
    table = Table("tool", *(heading for _, heading, _ in COLUMNS), title=title)
    for name, runs in by_tool(results).items():
        figures = summarise(runs)
        label = f"{name} {comparison.versions.get(name, '')}".strip()
        table.add_row(label, *(cell(figures[key], digits) for key, _, digits in COLUMNS))
        for failure in dict.fromkeys(run.failure for run in runs if run.failure):
            table.add_row(f"  {failure}")
    for name, reason in comparison.unavailable.items():
        table.add_row(name, *(UNKNOWN for _ in COLUMNS))
        table.add_row(f"  {reason}")
    console.print(table)


def cell(value: float | None, digits: int) -> str:
    """Return a figure as text; a dash for an unknown one."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"
