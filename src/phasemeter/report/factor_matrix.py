"""Factors as a matrix: one row a statistic of a class, one column a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phasemeter.analysis.finding import Factor
from phasemeter.report import formatting

RAMP = "ramp"
_COLUMN_FORM = "{} / alone"


@dataclass(frozen=True, slots=True)
class FactorRow:
    """One row of the matrix.

    Attributes:
        condition: Condition of the experiment.
        class_name: Request class.
        statistic: For instance `gap_p99`.
        cells: One text a column: the ratio with its interval, marked where that covers 1.
    """

    condition: str
    class_name: str
    statistic: str
    cells: tuple[str, ...]


def factor_matrix(factors: Sequence[Factor]) -> tuple[list[str], list[FactorRow]]:
    """Return the columns' headings and the rows, both in the order of the factors.

    Names read `comparison.condition.class.statistic`; a comparison is a topology (under load against
    alone) or `second_vs_first`. Factors of a ramp have a table of their own.
    """
    split = {factor.name: factor.name.split(".") for factor in factors}
    named = {name: parts for name, parts in split.items() if len(parts) == 4 and parts[1] != RAMP}
    comparisons = list(dict.fromkeys(parts[0] for parts in named.values()))
    by_name = {factor.name: factor for factor in factors}
    keys = dict.fromkeys(tuple(parts[1:]) for parts in named.values())
    rows = [
        FactorRow(
            condition,
            class_name,
            statistic,
            tuple(
                _cell(by_name.get(f"{comparison}.{condition}.{class_name}.{statistic}"))
                for comparison in comparisons
            ),
        )
        for condition, class_name, statistic in keys
    ]
    return [_heading(comparison) for comparison in comparisons], rows


def _heading(comparison: str) -> str:
    second, versus, first = comparison.partition("_vs_")
    return f"{second} / {first}" if versus else _COLUMN_FORM.format(comparison)


def _cell(factor: Factor | None) -> str:
    if factor is None or factor.value is None:
        return formatting.UNKNOWN
    if factor.ci95 is None:
        return f"{factor.value:.2f}"
    lo, hi = factor.ci95
    mark = " ~" if lo <= 1 <= hi else "  "
    return f"{_short(factor.value)} [{_short(lo)}, {_short(hi)}]{mark}"


def _short(value: float) -> str:
    return (
        f"{value:.2f}"
        if abs(value) < 10
        else f"{value:.1f}"
        if abs(value) < 100
        else f"{value:.0f}"
    )
