"""One condition of an experiment on one topology, once: what is sent, and its phases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from phasemeter.load.plan import Plan


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a condition, in seconds from its start."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class ArmRun:
    """One condition on one topology, once.

    Attributes:
        arm: Name of the topology.
        condition: What is done to it.
        repeat: Which time, from 1.
        plan: What is sent.
        phases: Its stretches.
        users: Number of concurrent users where the condition is run with several; else None.
    """

    arm: str
    condition: str
    repeat: int
    plan: Plan
    phases: tuple[Phase, ...]
    users: int | None = None


def phases_of(lengths_s: Iterable[tuple[str, float]]) -> tuple[Phase, ...]:
    """Return phases that follow each other without a gap, from (name, length in seconds)."""
    phases: list[Phase] = []
    start_s = 0.0
    for name, length_s in lengths_s:
        phases.append(Phase(name, start_s, start_s + length_s))
        start_s += length_s
    return tuple(phases)


def tags_of(arm: str, condition: str, repeat: int) -> dict[str, str]:
    """Return the labels by which the records of one run are found again."""
    return {"arm": arm, "condition": condition, "repeat": str(repeat)}


def seed_of(seed: int, repeat: int) -> int:
    """Return the seed of a run's plan.

    It leaves out arm and condition: a class meets the same arrivals alone and together, on every
    topology.
    """
    return seed * 1_000 + repeat
