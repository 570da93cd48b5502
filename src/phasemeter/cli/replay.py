"""`phasemeter replay`: run recorded streams through framing, dialect and timeline."""

from __future__ import annotations

import json
from pathlib import Path

import click

from phasemeter.core.errors import UsageError
from phasemeter.dialects import by_name
from phasemeter.testing.recorded import RecordedCase, differences, summary_of


@click.command("replay")
@click.argument("cases", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print what was measured as JSON.")
@click.option("--dialect", "dialects", multiple=True, help="Only cases of this dialect.")
def command(cases: tuple[Path, ...], dialects: tuple[str, ...], *, as_json: bool) -> int:
    """Run recorded streams (case files, or folders of them) and compare with what they expect.

    One case with --json prints the measured fields; several print one object, by case name. Exit
    status 1 when a case that states expectations was measured otherwise.
    """
    results = [(case, case.run()) for case in map(RecordedCase.load, _files(cases, dialects))]
    if as_json:
        summaries = {case.name: summary_of(timeline) for case, timeline in results}
        single = len(results) == 1 and cases[0].is_file()
        click.echo(json.dumps(next(iter(summaries.values())) if single else summaries, indent=1))
    wrong = 0
    for case, timeline in results:
        differing = differences(timeline, case.expect or {})
        wrong += bool(differing)
        if not as_json:
            click.echo(f"{'WRONG' if differing else 'right'}  {case.name}  {timeline.outcome}")
        for field, (measured, expected) in differing.items():
            click.echo(f"  {case.name}: {field}: {measured!r}, expected {expected!r}", err=as_json)
    if not as_json:
        click.echo(f"{len(results) - wrong} of {len(results)} right")
    return 1 if wrong else 0


def _files(cases: tuple[Path, ...], dialects: tuple[str, ...]) -> list[Path]:
    files: list[Path] = []
    for path in cases:
        files += sorted(path.glob("*.json")) if path.is_dir() else [path]
    if dialects:
        for name in dialects:
            by_name(name)
        files = [path for path in files if _dialect_of(path) in dialects]
    if not files:
        msg = "CASES: no case file there; accepted: JSON files, or folders that hold some"
        raise UsageError(msg)
    return files


def _dialect_of(path: Path) -> str | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document.get("dialect") if isinstance(document, dict) else None
