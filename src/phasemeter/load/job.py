"""What a worker process is told, and what it says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phasemeter.load.plan import Plan
from phasemeter.load.target import Target


@dataclass(frozen=True, slots=True)
class Job:
    """One worker's part of a run; handed over through a pipe, never written to disk.

    Attributes:
        folder: The run folder.
        writer: Number of the worker's record file within the run.
        worker: Which share of the plan.
        workers: Of how many shares.
        plan: The plan.
        target: Where requests go.
        salt: Unique to this carrying-out of the plan.
        timeout_s: Time limit of one request.
        cpu: CPU that the worker keeps to, or None for any.
        headers: Extra request headers; may hold a key, so they are kept out of `repr`.
    """

    folder: Path
    writer: int
    worker: int
    workers: int
    plan: Plan
    target: Target
    salt: str
    timeout_s: float
    cpu: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """Running totals of a worker, one JSON line each on its standard output."""

    issued: int = 0
    ok: int = 0
    failed: int = 0
    in_flight: int = 0
    token_events: int = 0

    def plus(self, other: Progress) -> Progress:
        """Return the sum of two workers' totals."""
        return Progress(
            self.issued + other.issued,
            self.ok + other.ok,
            self.failed + other.failed,
            self.in_flight + other.in_flight,
            self.token_events + other.token_events,
        )
