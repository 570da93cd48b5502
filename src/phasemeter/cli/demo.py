"""`phasemeter demo`: the interference experiment on lab engines, about three minutes in all."""

from __future__ import annotations

from pathlib import Path

import click

_TIMEOUT_S = 120.0


@click.command("demo")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Run folder; by default a new one under runs/.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def command(output: Path | None, *, as_json: bool) -> int:
    """Measure mixed against separated serving on this machine's own cores, without a GPU.

    Four processes of a small real transformer serve two topologies on the same two cores. It reports
    what it measured, whichever way that falls; `phasemeter interference --lab` has the knobs.
    """
    from phasemeter.cli.experiment import run_on_lab
    from phasemeter.experiments.interference_plan import LAB_SETTINGS

    return run_on_lab(LAB_SETTINGS, "mixed", output, timeout_s=_TIMEOUT_S, as_json=as_json)
