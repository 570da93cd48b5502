"""The self-check for a terminal or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from phasemeter.experiments.run_selfcheck import SelfCheck
from phasemeter.experiments.selfcheck import believed_events_per_s
from phasemeter.report.formatting import UNKNOWN
from phasemeter.report.terminal import plain_console, plain_table

if TYPE_CHECKING:
    from rich.table import Table

_KEY = (
    "errors are against the server's own log: gap p99 measured minus sent, p99 of the error of ttft_wire;"
    "\nlost: gaps unknown since several events came in one read. Server and client share the cores."
)


def print_selfcheck(check: SelfCheck) -> None:
    """Print the loads, the errors at each, and up to where figures are believed."""
    console = plain_console()
    console.print(_table(check))
    console.print(Text(_KEY))
    believed = believed_events_per_s(check.steps)
    stamps = ", ".join(sorted({step.stamp_source for step in check.steps})) or UNKNOWN
    console.print(Text(f"\nclock steps of {check.clock_resolution_ns} ns; stamps: {stamps}"))
    if believed is None:
        console.print(Text("not even the lightest load is measured right here", style="bold red"))
    else:
        console.print(
            Text(f"believed on this machine up to {believed:,.0f} token events per second")
        )


def _table(check: SelfCheck) -> Table:
    table = plain_table(
        "self-check (times in ms)",
        ["streams"],
        ["events/s", "gap p99", "its error", "ttft error", "lost", "send lag", "verdict"],
    )
    table.columns[0].no_wrap = True
    for step in check.steps:
        table.add_row(
            str(step.streams),
            f"{step.events_per_s:,.0f}",
            f"{step.gap_p99_ms:.2f}",
            f"{step.gap_error_ms:+.3f}",
            f"{step.ttft_error_p99_ms:.2f}",
            f"{step.coalesced_share:.2%}",
            UNKNOWN if step.send_lag_p99_ms is None else f"{step.send_lag_p99_ms:.1f}",
            "believed" if step.is_believed else "not believed",
        )
    return table
