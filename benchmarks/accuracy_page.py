"""Writes docs/accuracy.md from the results of a session.

Usage: python -m benchmarks.accuracy_page RESULTS.json docs/accuracy.md
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from benchmarks.cpu_section import cpu_section
from benchmarks.ladder import LIMIT_MS, USERS
from benchmarks.peers import FLOOR, FLOOR_RESTING, YARDSTICK
from benchmarks.results import ERRORS, Comparison, Result, by_tool, summarise
from benchmarks.table import COLUMNS, UNKNOWN, cell
from benchmarks.truth_figures import Span

_OURS = "phasemeter"
_RESOLUTION_MS = 0.01
_LADDER_PEERS = ("aiperf", "vllm-bench")
_LADDER_TIMES = 5


def accuracy_text(comparison: Comparison) -> str:
    """Return the document."""
    parts = [_introduction(comparison), _rounds(comparison)]
    if comparison.busy:
        parts.append(_busy(comparison))
    if comparison.rungs:
        parts.append(_ladder(comparison))
    parts += [_budgets(comparison), *cpu_section(comparison), _validity(), _method(comparison)]
    return "\n".join(parts)


def _introduction(comparison: Comparison) -> str:
    machine = comparison.machine
    return f"""# Accuracy, beside the peers

Written by `make bench` from its own results; do not edit.

A server that paces its tokens and logs when it really sent each one is measured by several load testers, one after the other, on the same machine and with the same load.
The errors are the tool's figure minus the server's own, so 0 is a perfect meter.

Measured on {comparison.date}: {machine["processor"]}, {machine["cores"]} cores, {machine["memory"]}, Linux {machine["kernel"]}, governor {machine["governor"]}, Python {machine["python"]}.
Load: {_sentence(comparison.settings)}.
"""


def _sentence(settings: object) -> str:
    assert isinstance(settings, dict)
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _rounds(comparison: Comparison) -> str:
    count = max((result.round for result in comparison.rounds), default=0)
    text = f"""## Result

Medians over {count} rounds; errors by their size.

{_table(comparison, comparison.rounds)}
"""
    for name, reason in comparison.unavailable.items():
        text += f"\n{name} is missing: {reason}.\n"
    for result in comparison.rounds:
        if result.failure:
            text += f"\n{result.tool}, round {result.round}: {result.failure}.\n"
    return text + _true_and_reported(comparison) + _ratios(comparison)


def _table(comparison: Comparison, results: list[Result]) -> str:
    heads = [heading.replace("\n", " ") for _, heading, _ in COLUMNS]
    lines = [f"| tool | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for name, runs in by_tool(results).items():
        figures = summarise(runs)
        cells = [cell(figures[key], digits) for key, _, digits in COLUMNS]
        label = f"{name} {comparison.versions.get(name, '')}".strip()
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _true_and_reported(comparison: Comparison) -> str:
    """Return the figures behind the errors, round by round."""
    lines = [
        "",
        "What was reported, and in brackets what was true, each round:",
        "",
        "| tool | round | TTFT p50 ms | TTFT p99 ms | gap p99 ms | gap max ms |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for result in sorted(comparison.rounds, key=lambda one: (one.tool, one.round)):
        if result.truth is None or result.reported is None:
            continue
        cells = [
            f"{cell(getattr(result.reported, name), 2)} ({_span(getattr(result.truth, name))})"
            for name in ("ttft_p50_ms", "ttft_p99_ms", "gap_p99_ms", "gap_max_ms")
        ]
        lines.append(f"| {result.tool} | {result.round} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _span(span: Span) -> str:
    low, high = cell(span.low_ms, 2), cell(span.high_ms, 2)
    return low if low == high else f"{low} to {high}"


def _ratios(comparison: Comparison) -> str:
    groups = by_tool(comparison.rounds)
    if _OURS not in groups:
        return ""
    ours = summarise(groups[_OURS])
    lines = [
        "",
        "How many times phasemeter's figure the others' are, errors below 0.01 ms counted as 0.01 ms:",
        "",
        "| tool | gap p99 error | TTFT p99 error | CPU a token | wall around the load |",
        "|---|---:|---:|---:|---:|",
    ]
    keys = ("gap_p99_error_ms", "ttft_p99_error_ms", "cpu_us_per_event", "around_s")
    for name, runs in groups.items():
        if name not in (_OURS, FLOOR, FLOOR_RESTING):
            theirs = summarise(runs)
            cells = [
                _ratio(theirs[key], ours[key], _RESOLUTION_MS if key in ERRORS else 1e-9)
                for key in keys
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _ratio(theirs: float | None, ours: float | None, least: float) -> str:
    """Return how many times ours theirs is; both count as at least `least`."""
    if theirs is None or ours is None:
        return UNKNOWN
    return f"{max(theirs, least) / max(ours, least):,.1f}"


def _busy(comparison: Comparison) -> str:
    return f"""## With a busy process on the client's core

The server has a core of its own; the tool shares the other one with a process that never waits.

{_table(comparison, comparison.busy)}
"""


def _ladder(comparison: Comparison) -> str:
    lines = [
        "## Highest load with the gap p99 within 1 ms",
        "",
        "Streams at 50 tokens/s each; a step has failed when two runs of it have.",
        "",
        "| tool | streams | first step past it | why it ended |",
        "|---|---:|---:|---|",
    ]
    for rung in comparison.rungs:
        failed = cell(rung.failed_at, 0)
        lines.append(f"| {rung.tool} | {cell(rung.users, 0)} | {failed} | {rung.why} |")
    return "\n".join(lines) + "\n"


def _budgets(comparison: Comparison) -> str:
    groups = by_tool(comparison.rounds)
    ours = summarise(groups.get(_OURS, []))
    busy = summarise(by_tool(comparison.busy).get(_OURS, []))
    aiohttp_us = summarise(groups.get(YARDSTICK, []))["cpu_us_per_event"]
    rows = [
        ("gap p99 error", ours["gap_p99_error_ms"], 0.2, "ms"),
        ("the same beside a busy process", busy["gap_p99_error_ms"], 0.2, "ms"),
        ("`ttft_wire` p50 error", ours["ttft_p50_error_ms"], 1.0, "ms"),
        ("`ttft_wire` p99 error", ours["ttft_p99_error_ms"], 5.0, "ms"),
        ("CPU a token event", ours["cpu_us_per_event"], 35.0, "us"),
        (
            "the same, at most half of a plain aiohttp loop's",
            ours["cpu_us_per_event"],
            None if aiohttp_us is None else aiohttp_us / 2,
            "us",
        ),
        ("wall time around the load", ours["around_s"], 2.0, "s"),
    ]
    lines = ["## Budgets", "", "| what | measured | budget | met |", "|---|---:|---:|---|"]
    for what, value, budget, unit in rows:
        met = UNKNOWN if value is None or budget is None else "yes" if value <= budget else "**no**"
        lines.append(f"| {what} | {cell(value, 3)} {unit} | {cell(budget, 3)} {unit} | {met} |")
    lines += _ladder_budgets(comparison)
    return "\n".join(lines) + "\n"


def _ladder_budgets(comparison: Comparison) -> list[str]:
    """Return a row for each peer that the highest load is to exceed so many times."""
    highest = {rung.tool: rung.users for rung in comparison.rungs}
    ours = highest.get(_OURS)
    rows = []
    for name in _LADDER_PEERS:
        if name not in highest or ours is None:
            continue
        theirs = highest[name]
        # A tool that fails at the lowest step has no load of its own to divide by.
        ratio = None if theirs is None else ours / theirs
        met = "yes" if ratio is None or ratio >= _LADDER_TIMES else "**no**"
        said = f"more than {ours / USERS[0]:,.0f}" if ratio is None else f"{ratio:,.1f}"
        rows.append(
            f"| highest load with gap p99 within {LIMIT_MS:g} ms, against {name} | {said} times | at "
            f"least {_LADDER_TIMES} times | {met} |"
        )
    return rows


def _validity() -> str:
    return """## Runs that cannot be believed

Every phasemeter run says whether it can be believed, from its own lags and its machine's (docs/load.md has the rules); an invalid one exits with status 3. To see that, and that it does not cry wolf:

- `python -m benchmarks.starved_client` takes the client's core away: with user-space stamps the run must call itself invalid, with kernel stamps it must be valid and its gap p99 within 0.2 ms of the server's.
- `python -m benchmarks.false_alarms --runs 20` counts what is said against runs in which nothing is wrong.
- `phasemeter selfcheck` says in 15 s up to which load this machine's figures are right.
"""


def _method(comparison: Comparison) -> str:
    notes = "\n".join(f"- {name}: {note}." for name, note in comparison.notes.items() if note)
    late_ms = [run.truth.late_p99_ms for run in comparison.rounds if run.truth is not None]
    connecting = _connecting(comparison)
    return f"""## How it was measured

- The server is one process with its own loop; it stamps each token right before the send, and takes the kernel's receive stamp of each request. Its own plan was missed by {cell(median(late_ms) if late_ms else None, 2)} ms at p99; that does not matter to the errors, since the truth is what was sent and not what was planned.
- A fresh server for every run; the order of the tools turns with the rounds.
- Each tool is used as it comes, in an environment of its own, offline, with a tokenizer in which every token sent is one token.
- TTFT: a tool that starts its clock before it connects counts connecting, which the server cannot see. {connecting}
- A percentile lies between two samples, and tools differ in which they take or how they mix them; where these samples are apart (the true figure is shown as a range), any figure between them counts as exact.
- Zero gaps: gaps under 0.1 ms that the tool kept. The server makes none, so each is two events that the tool stamped together.
- CPU a token: of the whole process tree within the load; CPU in all contains start and end. Wall around: the tool's running time less the load's.
- Memory is the largest sum of resident sizes; pages that processes share count for each.

{notes}

Again, on your machine: `make bench BENCH="--rounds 3 --busy-core --ladder"`; a first look in a few minutes: `make bench`.
"""


def _connecting(comparison: Comparison) -> str:
    figures: list[float] = []
    for run in comparison.rounds:
        if run.tool == _OURS and run.reported is not None and run.truth is not None:
            said = run.reported.ttft_connecting_p99_ms
            if said is not None:
                figures.append(run.truth.ttft_p99_ms.distance_ms(said))
    if not figures:
        return ""
    return (
        "phasemeter reports both: `ttft_wire` is in the table, "
        f"`ttft`, which contains connecting, was {median(figures):.2f} ms above the truth at p99."
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(accuracy_text(Comparison.load(Path(sys.argv[1]))))
