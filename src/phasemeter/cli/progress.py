"""Progress of a run on standard error: a bar, the time left, and what has been counted so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from phasemeter.load import job


class RunProgress:
    """One bar over a run's planned time."""

    def __init__(self, bar: Progress, total_s: float) -> None:
        self._bar = bar
        self._total_s = total_s
        self._task = bar.add_task("", total=total_s, counts="")

    def show(self, done_s: float, label: str, totals: job.Progress) -> None:
        """Show that `done_s` of the planned seconds have passed."""
        counts = (
            f"{totals.ok} ok  {totals.failed} failed  {totals.in_flight} in flight  "
            f"{totals.token_events} token events"
        )
        done_s = min(max(done_s, 0.0), self._total_s)
        self._bar.update(self._task, completed=done_s, description=label, counts=counts)


@contextmanager
def run_progress(total_s: float) -> Iterator[RunProgress]:
    """Show a bar while the block runs; nothing where standard error is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield RunProgress(bar, total_s)
