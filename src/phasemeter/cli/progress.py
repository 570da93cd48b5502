"""Progress of a run on standard error: a bar, the time left, and what has been counted so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from phasemeter.load import job


class RunProgress(Protocol):
    """Shows how far a run has come."""

    def show(self, share: float, label: str, totals: job.Progress) -> None:
        """Show a state.

        Args:
            share: Done share of the run, 0 to 1.
            label: What is under way.
            totals: What has been counted so far.
        """
        ...


class _Bar:
    """A bar on a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=1.0, counts="")

    def show(self, share: float, label: str, totals: job.Progress) -> None:
        counts = (
            f"{totals.ok} ok  {totals.failed} failed  {totals.in_flight} in flight  "
            f"{totals.token_events} token events"
        )
        share = min(max(share, 0.0), 1.0)
        self._progress.update(self._task, completed=share, description=label, counts=counts)


class _Lines:
    """A line whenever something new begins, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""

    def show(self, share: float, label: str, totals: job.Progress) -> None:
        del share, totals
        if label != self._last:
            self._last = label
            self._console.print(label, highlight=False)


@contextmanager
def run_progress() -> Iterator[RunProgress]:
    """Show progress while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress)
