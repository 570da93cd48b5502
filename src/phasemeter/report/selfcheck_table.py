"""The self-check for a terminal or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from phasemeter.experiments.run_selfcheck import SelfCheck
from phasemeter.experiments.selfcheck import believed_events_per_s
from phasemeter.report.formatting import UNKNOWN, ms
from phasemeter.report.health_rows import lag_rows, machine_line
from phasemeter.report.plain import plain_console, plain_table

if TYPE_CHECKING:
    from rich.table import Table

_KEY = (
    "errors are against the server's own log: gap p99 measured minus sent, p99 of the error of ttft_wire;"
    "\nlost: gaps unknown since several events came in one read. Server and client share the cores."
)


def print_selfcheck(check: SelfCheck) -> None:
    """Print the loads, the errors at each, the driver's lags, and up to where figures are believed."""
    console = plain_console()
    console.print(_steps(check))
    console.print(Text(_KEY))
    console.print(_lags(check))
    drift_us = check.clock_drift_us
    drift = UNKNOWN if drift_us is None else f"{drift_us:,.1f} us"
    lines = (
        machine_line(check.health),
        f"clock resolution {check.clock_resolution_ns} ns; wall clock set {check.clock_steps} times, "
        f"drift {drift}; {check.host.get('cores')} cores, {check.host.get('cpu_model') or UNKNOWN}",
    )
    for line in filter(None, lines):
        console.print(Text(line))
    believed = believed_events_per_s(check.steps)
    if believed is None:
        verdict = Text("\nnot even the lightest load is measured right here", style="bold red")
    else:
        verdict = Text(f"\nbelieved on this machine up to {believed:,.0f} token events per second")
    console.print(verdict)


def _steps(check: SelfCheck) -> Table:
    table = plain_table(
        "self-check (times in ms)",
        ["streams", "stamps"],
        ["events/s", "gap p99", "its error", "ttft error", "lost", "send lag", "verdict"],
    )
    for column in table.columns[:2]:
        column.no_wrap = True
    for step in (*check.steps, *check.recv_steps):
        table.add_row(
            str(step.streams),
            step.stamp_source,
            f"{step.events_per_s:,.0f}",
            f"{step.gap_p99_ms:.2f}",
            f"{step.gap_error_ms:+.3f}",
            f"{step.ttft_error_p99_ms:.2f}",
            f"{step.coalesced_share:.2%}",
            ms(step.send_lag_p99_ms),
            "believed" if step.is_believed else "not believed",
        )
    return table


def _lags(check: SelfCheck) -> Table:
    table = plain_table(
        "\nthe driver over all of these loads, ms", ["lag", "in words"], ["p50", "p99", "max"]
    )
    for name, words, _, p50, p99, longest in lag_rows(check.health):
        table.add_row(name, words, p50, p99, longest)
    return table
