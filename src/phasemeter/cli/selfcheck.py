"""`phasemeter selfcheck`: up to which load this machine's figures can be believed."""

from __future__ import annotations

import json

import click


@click.command("selfcheck")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def command(*, as_json: bool) -> int:
    """Measure a paced server on this machine at rising load, and compare with what it really sent.

    Takes about 15 seconds. Shows the clock, how late the load driver is, and the error of its stamps.
    Exit status 3 where not even the lightest load is measured right.
    """
    from phasemeter.cli.progress import run_progress
    from phasemeter.experiments.run_selfcheck import run_selfcheck
    from phasemeter.experiments.selfcheck import believed_events_per_s
    from phasemeter.report.selfcheck_table import print_selfcheck

    with run_progress() as progress:
        check = run_selfcheck(progress.show)
    believed = believed_events_per_s(check.steps)
    if as_json:
        click.echo(json.dumps(check.to_json(), indent=1))
    else:
        print_selfcheck(check)
    return 0 if believed is not None else 3
