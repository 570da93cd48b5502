"""What several commands share: options, durations, headers, and how a run's report is shown."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from phasemeter.core.errors import UsageError

if TYPE_CHECKING:
    from phasemeter.report.document import Report

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
EXIT_INVALID = 3
MOST_PER_S = 100_000


class Duration(click.ParamType[float]):
    """A length of time such as `500ms`, `60s`, `2m` or `1h`; a bare number is seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        if isinstance(value, int | float):
            return float(value)
        match = _DURATION.fullmatch(str(value).strip())
        seconds = float(match["number"]) * _UNIT_S[match["unit"]] if match else 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is not a duration; accepted: 500ms, 60s, 2m, 1h", param, ctx)
        return seconds


DURATION = Duration()

TIMEOUT_OPTION = click.option(
    "--timeout", type=DURATION, default=600.0, show_default="10m", help="Time limit of one request."
)
STAMPS_OPTION = click.option(
    "--stamps",
    type=click.Choice(["auto", "kernel", "recv"]),
    default="auto",
    show_default=True,
    help="Arrival times: kernel receive stamps, the clock as a read returns, or the best there is.",
)
INSECURE_OPTION = click.option(
    "--insecure", is_flag=True, help="Accept any certificate of an https server."
)
HEADER_OPTION = click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    help="Extra header, 'Name: value'; never written to the run.",
)
API_KEY_ENV_OPTION = click.option(
    "--api-key-env", metavar="NAME", help="Environment variable with the API key."
)
OUTPUT_OPTION = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Run folder; by default a new one under runs/.",
)
JSON_OPTION = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."
)


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the different whole numbers from 1 of a list such as `1,2,4`, the smallest first.

    Raises:
        UsageError: If the text is no such list.
    """
    numbers = listed_numbers(text)
    if not numbers:
        msg = f"{option}: {text!r} is no list of whole numbers from 1; accepted: 1,2,4"
        raise UsageError(msg)
    return tuple(sorted(set(numbers)))


def listed_numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers from 1 of a list such as `1,2,4`; empty where the text is no such list."""
    try:
        numbers = tuple(int(item) for item in text.split(","))
    except ValueError:
        return ()
    return numbers if min(numbers) >= 1 else ()


def read_headers(headers: Iterable[str], api_key_env: str | None) -> dict[str, str]:
    """Return extra request headers from `Name: value` texts and the variable that holds a key.

    Raises:
        UsageError: If a text is no header, or the variable is not set.
    """
    values: dict[str, str] = {}
    for number, header in enumerate(headers, start=1):
        name, colon, value = header.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z0-9-]+", name.strip()) or not _is_sendable(value):
            msg = f"--header: the one at place {number} is no header; accepted: 'Name: value'"
            raise UsageError(msg)
        values[name.strip()] = value.strip()
    if api_key_env is not None:
        key = os.environ.get(api_key_env, "").strip()
        if not key or not _is_sendable(key):
            fault = "holds characters that no header takes" if key else "is not set or empty"
            msg = f"--api-key-env: the variable {api_key_env} {fault}"
            raise UsageError(msg)
        values["Authorization"] = f"Bearer {key}"
    return values


def _is_sendable(value: str) -> bool:
    """True for what an HTTP header can carry; a fault is told without the value, which may be a key."""
    return value.isprintable() and value.isascii()


def show_report(folder: Path, *, as_json: bool) -> int:
    """Write a run's report files, print them, and return the exit status.

    The last lines name the run folder and the page, so that they are found under long output.
    """
    from phasemeter.report.document import read_report, write_report
    from phasemeter.report.terminal import print_report

    html = folder / "report.html"
    report = read_report(folder)
    for warning in write_report(report, html=html):
        click.echo(f"phasemeter: {warning}", err=True)
    if as_json:
        # Of an experiment the finding is the document; the summary of all requests goes with it.
        finding = {} if report.finding is None else report.finding.to_json()
        if report.planner is not None:
            finding = {"plan": report.planner.to_json()}
        where = {"run": str(folder), "page": str(html)}
        click.echo(json.dumps({**report.summary, **finding, **where}, indent=1))
    else:
        print_report(report.run, report.summary, report.finding, planner=report.planner)
        click.echo(f"run   {folder}")
        click.echo(f"page  {html}")
    return exit_status(report)


@contextmanager
def reported_if_cut_off(
    folder: Path, *, as_json: bool, also: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Show the report of what was measured until then if the block is interrupted or a worker fails.

    Args:
        folder: The run folder.
        as_json: Print JSON instead of tables.
        also: Other errors after which there is something to report.

    Raises:
        KeyboardInterrupt, WorkerFailedError: And those of `also`, after the report.
    """
    from phasemeter.load.launch import WorkerFailedError

    ends: tuple[type[BaseException], ...] = (KeyboardInterrupt, WorkerFailedError, *also)
    try:
        yield
    except ends:
        show_report(folder, as_json=as_json)
        raise


def exit_status(report: Report) -> int:
    """Return 3 for a run whose figures cannot be believed or show nothing, else 0."""
    invalid = report.summary["validity"]["verdict"] == "invalid"
    if report.finding is not None:
        invalid = invalid or report.finding.verdict.kind == "invalid"
    if report.planner is not None:
        invalid = invalid or not report.planner.is_complete
    return EXIT_INVALID if invalid else 0
