"""What injected prompts did, as tables for a terminal: the grid by topology, then all in all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.text import Text

from phasemeter.analysis.finding import Finding
from phasemeter.analysis.injection import Cell, Effect
from phasemeter.report.injection_rows import (
    CELL_COLUMNS,
    CELL_KEY,
    EFFECT_COLUMNS,
    EFFECT_KEY,
    cell_rows,
    effect_rows,
)
from phasemeter.report.plain import plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Shown = TypeVar("Shown", Cell, Effect)


def injection_tables(finding: Finding) -> list[RenderableType]:
    """Return the tables of a run's injections with what their columns mean; empty without any."""
    return [
        *_tables("injection by cell, {}, gaps in ms", finding.cells, CELL_COLUMNS, cell_rows),
        *([Text(CELL_KEY)] if finding.cells else []),
        *_tables("injection in all, {}", finding.effects, EFFECT_COLUMNS, effect_rows),
        *([Text(EFFECT_KEY)] if finding.effects else []),
    ]


def _tables(
    title: str,
    values: Sequence[Shown],
    columns: Sequence[str],
    rows: Callable[[Iterable[Shown]], list[tuple[str, ...]]],
) -> Iterator[Table]:
    """Yield a table of each topology."""
    for topology in dict.fromkeys(value.arm for value in values):
        table = plain_table("\n" + title.format(topology), [], columns)
        for row in rows(value for value in values if value.arm == topology):
            table.add_row(*row)
        yield table
