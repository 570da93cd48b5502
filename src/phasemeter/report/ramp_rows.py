"""The ramp as rows of text: one a class at a number of users on a topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phasemeter.analysis.ramp_levels import ALL, Estimate, RampLevel, by_topology, peak_of
from phasemeter.report import formatting

COLUMNS = (
    "topology",
    "users",
    "class",
    "ok",
    "TTFT p50",
    "p90",
    "p99",
    "gap p50",
    "p99",
    "tokens/s",
    "per GPU",
)


@dataclass(frozen=True, slots=True)
class RampRow:
    """One row.

    Attributes:
        topology: Name of the topology.
        users: Number of users.
        cells: One text a column; what repeats the row above is empty.
        intervals: The interval of each cell, empty where there is none.
    """

    topology: str
    users: int
    cells: tuple[str, ...]
    intervals: tuple[str, ...]


def ramp_rows(levels: Sequence[RampLevel]) -> list[RampRow]:
    """Return the rows of every topology, fewest users first."""
    rows: list[RampRow] = []
    for mine in by_topology(levels).values():
        peak = peak_of(mine)
        for level in mine:
            rows += _level_rows(level, is_first=level is mine[0], is_peak=level is peak)
    return rows


def _level_rows(level: RampLevel, *, is_first: bool, is_peak: bool) -> list[RampRow]:
    rows = []
    shown = shown_classes(level)
    for name in shown:
        one, begins = level.classes[name], name == shown[0]
        latencies = [*one.ttft_ms.values(), *one.gap_ms.values()]
        rates = [level.output_tokens_per_s, level.output_tokens_per_s_per_gpu]
        told = [formatting.rate(rate.value) for rate in rates] if begins else ["", ""]
        if is_peak and begins:
            told[0] += " *"
        rows.append(
            RampRow(
                level.topology,
                level.users,
                (
                    level.topology if is_first and begins else "",
                    str(level.users) if begins else "",
                    name,
                    formatting.count(one.requests),
                    *(formatting.ms(value.value) for value in latencies),
                    *told,
                ),
                (
                    *("",) * 4,
                    *map(_interval, latencies),
                    *(map(_interval, rates) if begins else ("", "")),
                ),
            )
        )
    return rows


def shown_classes(level: RampLevel) -> list[str]:
    """Return the classes to show: all together only where nothing else is there."""
    return [name for name in level.classes if name != ALL] or list(level.classes)


def _interval(value: Estimate) -> str:
    if value.ci95 is None:
        return ""
    lo, hi = value.ci95
    return f"{formatting.ms(lo)} to {formatting.ms(hi)}"
