"""What injected prompts did, as tables for a terminal: the grid by topology, then all in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from phasemeter.analysis.finding import Finding
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


def injection_tables(finding: Finding) -> list[RenderableType]:
    """Return the tables of a run's injections with what their columns mean; empty without any."""
    parts: list[RenderableType] = []
    for topology in dict.fromkeys(cell.arm for cell in finding.cells):
        table = plain_table(f"\ninjection by cell, {topology}, gaps in ms", [], CELL_COLUMNS)
        for row in cell_rows(cell for cell in finding.cells if cell.arm == topology):
            table.add_row(*row)
        parts.append(table)
    if finding.cells:
        parts.append(Text(CELL_KEY))
    for topology in dict.fromkeys(effect.arm for effect in finding.effects):
        table = plain_table(f"\ninjection in all, {topology}", [], EFFECT_COLUMNS)
        for row in effect_rows(effect for effect in finding.effects if effect.arm == topology):
            table.add_row(*row)
        parts.append(table)
    if finding.effects:
        parts.append(Text(EFFECT_KEY))
    return parts
