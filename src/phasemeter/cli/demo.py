"""`phasemeter demo`: the interference experiment on lab engines, about three minutes in all."""

from __future__ import annotations

from pathlib import Path

import click

from phasemeter.cli.options import JSON_OPTION, OUTPUT_OPTION

_TIMEOUT_S = 120.0


@click.command("demo")
@OUTPUT_OPTION
@JSON_OPTION
def command(output: Path | None, *, as_json: bool) -> int:
    """Measure mixed against separated serving on this machine's own cores, without a GPU.

    Four processes of a small real transformer serve two topologies on the same two cores. It reports
    what it measured, whichever way that falls; `phasemeter interference --lab` has the knobs.
    """
    from phasemeter.cli.experiment import run_on_lab
    from phasemeter.experiments.interference_settings import LAB_SETTINGS

    return run_on_lab(LAB_SETTINGS, "mixed", output, timeout_s=_TIMEOUT_S, as_json=as_json)
