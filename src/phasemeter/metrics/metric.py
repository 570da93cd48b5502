"""The shape of a metric: a name, a formula, a population and one pure function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from phasemeter.core.timeline import Timeline

Population = Literal["requests", "gaps", "pulls"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One measure of a response.

    Attributes:
        name: Name in reports, files and histograms.
        title: The name in words.
        formula: Formula over the instants of a timeline.
        population: What one sample stands for.
        samples: Samples of one response in ns; empty where the metric is undefined.
    """

    name: str
    title: str
    formula: str
    population: Population
    samples: Callable[[Timeline], Sequence[int]]


def span(start_ns: int | None, end_ns: int | None) -> tuple[int, ...]:
    """Return (end - start,) in ns, or nothing where one of the two was not observed."""
    if start_ns is None or end_ns is None:
        return ()
    return (end_ns - start_ns,)
