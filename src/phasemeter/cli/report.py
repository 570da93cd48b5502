"""`phasemeter report`: tables, JSON and a page from a run folder's files alone."""

from __future__ import annotations

import json
from pathlib import Path

import click

from phasemeter.cli.options import JSON_OPTION, exit_status


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
@JSON_OPTION
@click.option("--html", type=click.Path(path_type=Path), help="Write a self-contained page there.")
@click.option(
    "--hgrm",
    type=click.Path(path_type=Path),
    help="Write HdrHistogram percentile distributions into that folder.",
)
def command(run: Path, html: Path | None, hgrm: Path | None, *, as_json: bool) -> int:
    """Report on RUN: the folder of a finished, interrupted or killed run, or a record file.

    Record files are what phasemeter.RecordSink writes in an application.
    """
    from phasemeter.report.document import read_report, write_report
    from phasemeter.report.terminal import print_report

    report = read_report(run)
    for warning in write_report(report, html=html, hgrm=hgrm):
        click.echo(f"phasemeter: {warning}", err=True)
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=1))
    else:
        print_report(report.run, report.summary, report.finding, planner=report.planner)
    return exit_status(report)
