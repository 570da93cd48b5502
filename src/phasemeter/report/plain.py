"""Tables and text for terminals and pipes in one look."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table

_PIPE_COLUMNS = 100


def plain_console(file: TextIO | None = None) -> Console:
    """Return a console for reports: no markup in labels, which come from users; 100 columns in pipes."""
    console = Console(file=file, highlight=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(file=file, highlight=False, markup=False, width=_PIPE_COLUMNS)
    return console


def plain_table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    """Return an empty table whose first columns hold words and whose others hold figures."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="",
    )
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table
