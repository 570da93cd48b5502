"""The report for a terminal or a pipe: plain tables, readable without colour at 100 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from phasemeter.analysis.calibration import Calibration
from phasemeter.analysis.finding import Arm, Finding
from phasemeter.analysis.planner_finding import PlannerFinding
from phasemeter.analysis.records import RunRecords
from phasemeter.analysis.shape import GroupSummary, Summary, Throughput, Validity
from phasemeter.report import formatting, server_rows
from phasemeter.report.about import CALIBRATE, about_run, kind_of
from phasemeter.report.calibration_rows import (
    DECODE_COLUMNS,
    PROMPT_COLUMNS,
    QUEUE_COLUMNS,
    calibration_lines,
    decode_rows,
    prompt_rows,
    queue_lines,
    queue_rows,
)
from phasemeter.report.factor_matrix import factor_matrix
from phasemeter.report.health_rows import lag_rows, machine_line, reads_line
from phasemeter.report.injection_tables import injection_tables
from phasemeter.report.plain import plain_console, plain_table
from phasemeter.report.planner_rows import (
    KEY,
    MEASURED_PER_GPU,
    PHASE_COLUMNS,
    PLAN_COLUMNS,
    heading,
    phase_rows,
    plan_rows,
    verdict,
)
from phasemeter.report.ramp_rows import COLUMNS, ramp_rows
from phasemeter.report.steps_rows import STEP_COLUMNS, chunk_lines, refusal_lines, step_rows
from phasemeter.report.tables import (
    LatencyRow,
    arm_rows,
    arms_beside_ramp,
    latency_rows,
    outcome_cells,
    rate_rows,
)

_LATENCY_COLUMNS = ("count", "p50", "p90", "p99", "max")
_METRIC_KEY = (
    "ttft: issued to first token; ttft_wire: from the request sent; ttft_response: from the planned\n"
    "time; gap: between token events; tpot: per output token; e2e: issued to last token"
)
_LEG_KEY = (
    "\nttft = prefill_leg (issued to the prefill instance's answer) + handoff (to the decode request\n"
    "sent) + decode_leg (to first token, with the pull of the KV cache); second_gap: first to second\n"
    "token event. Where both legs are sent together there is no handoff, and decode_leg holds it all."
)
_FACTOR_KEY = (
    "ratio [95 % interval]; ~ marks an interval that covers 1, no effect shown; `/ alone` is against the\n"
    "same streams or arrivals without the other load; higher is better for throughput, lower for all else"
)
_RAMP_KEY = (
    "closed loop, warm-up of each level left out; every value's interval is in the JSON document and on\n"
    "the page; * marks where throughput is highest"
)
_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "bold red"}
_VERDICT_WORDS = {
    "interference": "interference shown",
    "none": "no interference shown",
    "invalid": "nothing can be said",
}


def print_report(
    run: RunRecords,
    summary: Summary,
    finding: Finding | None,
    *,
    planner: PlannerFinding | None = None,
    file: TextIO | None = None,
) -> None:
    """Print the report of a run to a text stream (standard output where none is given).

    Colour is used only on a terminal and not where NO_COLOR is set; a pipe gets 100 columns unless
    COLUMNS says otherwise.
    """
    console = plain_console(file)
    console.print(terminal_report(run, summary, finding, planner))


def terminal_report(
    run: RunRecords,
    summary: Summary,
    finding: Finding | None,
    planner: PlannerFinding | None = None,
) -> RenderableType:
    """Return the report of a run as something that rich can print."""
    parts: list[RenderableType] = [Text(_headline(run), style="bold")]
    if summary["validity"]["verdict"] != "valid":
        parts.append(_validity(summary["validity"]))
    if planner is not None:
        parts += [*_errors(summary), *_health(summary), *_planner(planner)]
    elif finding is not None:
        # The verdict comes last: that is what a terminal still shows at the end.
        tables = (
            *_arms(finding),
            *_factors(finding),
            *injection_tables(finding),
            *_ramp(finding),
        )
        parts += [*tables, *_server(summary), *_health(summary), *_verdict(finding)]
    else:
        load = (*_load(summary), *_calibration(run, summary))
        parts += [*load, *_server(summary), *_health(summary)]
    parts += [*_steps(summary), _stamps(summary), *_detections(summary)]
    if summary["validity"]["verdict"] == "valid":
        parts.append(_validity(summary["validity"]))
    return Group(*parts)


def _headline(run: RunRecords) -> str:
    facts = dict(about_run(run))
    details = [facts[label] for label in ("run", "model", "server", "started") if label in facts]
    return ", ".join([f"{kind_of(run)} run", *details])


def _validity(validity: Validity) -> RenderableType:
    verdict = validity["verdict"]
    heading = Text.assemble("\nvalidity: ", (verdict, _STYLES[verdict]))
    return Group(heading, _bullets(validity["reasons"])) if validity["reasons"] else heading


def _load(summary: Summary) -> list[RenderableType]:
    return [
        _requests(summary),
        *_errors(summary),
        _latencies(latency_rows(summary)),
        Text(_metric_key([summary])),
        _throughput(summary["throughput"]),
    ]


def _requests(group: GroupSummary) -> Table:
    columns = [name for name, _ in outcome_cells(group["requests"])]
    table = plain_table("\nrequests", ["class"], columns)
    for class_name, summary in group["classes"].items():
        table.add_row(class_name, *(cell for _, cell in outcome_cells(summary["requests"])))
    if len(group["classes"]) != 1:
        table.add_row("all", *(cell for _, cell in outcome_cells(group["requests"])))
    return table


def _errors(summary: Summary) -> list[RenderableType]:
    if not summary["errors"]:
        return []
    told = ", ".join(f"{name} {number:,}" for name, number in summary["errors"].items())
    return [Text(f"errors by type: {told}")]


def _latencies(rows: Sequence[LatencyRow]) -> Table:
    table = plain_table("\nlatency, ms (outcome ok only)", ["class", "metric"], _LATENCY_COLUMNS)
    for row in rows:
        table.add_row(row.group, row.metric, *_latency_cells(row))
    return table


def _latency_cells(row: LatencyRow) -> tuple[str, ...]:
    count, p50, p90, p99, _, maximum = row.cells
    return count, p50, p90, p99, maximum


def _throughput(throughput: Throughput) -> Table:
    table = plain_table(
        "\nthroughput (outcome ok only)",
        ["window", "from the start"],
        ["requests/s", "output tokens/s", "token events/s"],
    )
    for row in rate_rows(throughput):
        table.add_row(*row)
    return table


def _stamps(summary: Summary) -> Text:
    source = summary["stamp_source"] or formatting.UNKNOWN
    coalesced = summary["coalesced_events"]
    text = Text(f"\nstamps: {source}; token events without a gap of their own: {coalesced:,}")
    if summary["throughput"]["tokens_from"] == "unknown":
        text.append("\ntoken rate: unknown where responses do not tell how many tokens they hold")
    return text


def _health(summary: Summary) -> list[RenderableType]:
    health = summary["health"]
    table = plain_table(
        "\nmeasuring itself, ms", ["lag", "in words"], ["count", "p50", "p99", "max"]
    )
    for row in lag_rows(health):
        table.add_row(*row)
    lines = [line for line in (machine_line(health), reads_line(health)) if line]
    return [*([table] if table.row_count else []), *map(Text, lines)]


def _steps(summary: Summary) -> list[RenderableType]:
    engines = summary["steps"]
    table = plain_table(
        "\nengine steps, ms (told from the arrivals of concurrent streams)",
        ["engine"],
        STEP_COLUMNS,
    )
    for row in step_rows(engines):
        table.add_row(*row)
    lines = [*chunk_lines(engines), *refusal_lines(engines)]
    return [*([table] if table.row_count else []), *map(Text, lines)]


def _calibration(run: RunRecords, summary: Summary) -> list[RenderableType]:
    """Return what a calibration showed, and the queue times inferred with the one that a run was given."""
    parts: list[RenderableType] = []
    told, queues = summary["calibration"], summary["queue_estimate"]
    if told is not None and kind_of(run) == CALIBRATE:
        calibration = Calibration.from_json(told)
        prompts = plain_table(
            "\ntime to first token of the idle server, ms from the request sent",
            [],
            ["prompt tokens", *PROMPT_COLUMNS],
        )
        for row in prompt_rows(calibration):
            prompts.add_row(*row)
        decode = plain_table("\ndecode steps without prompts, ms", [], ["streams", *DECODE_COLUMNS])
        for row in decode_rows(calibration):
            decode.add_row(*row)
        lines = map(Text, calibration_lines(calibration))
        parts += [prompts, *lines, *([decode] if decode.row_count else [])]
    elif queues is not None:
        table = plain_table(
            "\nqueue in the server, ms (inferred: at least, at most)", ["class"], QUEUE_COLUMNS
        )
        for row in queue_rows(queues):
            table.add_row(*row)
        parts += [table, *map(Text, queue_lines(queues))]
    return parts


def _server(summary: Summary) -> list[RenderableType]:
    rows = server_rows.server_rows(summary["server"])
    notes = server_rows.server_notes(summary["server"])
    parts: list[RenderableType] = []
    if rows:
        words, figures = server_rows.COLUMNS[: server_rows.WORDS], server_rows.COLUMNS
        table = plain_table("\nthe servers' own metrics", words, figures[server_rows.WORDS :])
        for row in rows:
            table.add_row(*row)
        parts += [table, Text(server_rows.KEY)]
    elif notes:
        parts.append(Text("\nthe servers' own metrics: none"))
    return [*parts, _bullets(notes)] if notes else parts


def _detections(summary: Summary) -> list[RenderableType]:
    texts = [detection["text"] for detection in summary["detections"]]
    return [Text("\nnoticed:"), _bullets(texts)] if texts else []


def _verdict(finding: Finding) -> list[RenderableType]:
    kind = finding.verdict.kind
    style = "bold red" if kind == "invalid" else "bold"
    heading = Text.assemble("\nverdict: ", (_VERDICT_WORDS[kind], style))
    return [heading, Text(finding.verdict.text), _bullets(finding.notes)]


def _bullets(lines: Sequence[str]) -> Table:
    """Return lines as a list whose wrapped parts stay indented."""
    grid = Table.grid(padding=(0, 1))
    for line in lines:
        grid.add_row("  -", Text(line))
    return grid


def _factors(finding: Finding) -> list[RenderableType]:
    columns, rows = factor_matrix(finding.factors)
    if not rows:
        return []
    table = plain_table("\nfactors", ["condition, class", "statistic"], columns)
    for column in table.columns:
        column.no_wrap = True
    last = ""
    for row in rows:
        group = f"{row.condition}, {row.class_name}"
        if last and group != last:
            table.add_section()
        label = "" if group == last else group
        table.add_row(label, row.statistic.replace("_", " "), *row.cells)
        last = group
    return [table, Text(_FACTOR_KEY)]


def _planner(finding: PlannerFinding) -> list[RenderableType]:
    phases = plain_table(
        "\none instance, one phase at a time", PHASE_COLUMNS[:1], PHASE_COLUMNS[1:]
    )
    for row in phase_rows(finding):
        phases.add_row(*row)
    # The page has room for what was measured per GPU, too.
    shown = [number for number, _ in enumerate(PLAN_COLUMNS) if number != MEASURED_PER_GPU]
    columns = [PLAN_COLUMNS[number] for number in shown]
    plan = plain_table("\nrequests/s of the mix", columns[:1], columns[1:])
    plan.columns[0].no_wrap = True
    for row in plan_rows(finding):
        plan.add_row(*(row[number] for number in shown))
    words = [Text("\nplan: " + heading(finding), style="bold"), Text(verdict(finding))]
    return [phases, plan, Text(KEY), *words, _bullets(finding.warnings)]


def _ramp(finding: Finding) -> list[RenderableType]:
    tables: dict[str, Table] = {}
    for row in ramp_rows(finding.ramp):
        title = f"\nramp, {row.topology}, latencies in ms (outcome ok only)"
        table = tables.setdefault(row.topology, plain_table(title, COLUMNS[1:3], COLUMNS[3:]))
        table.add_row(*row.cells[1:])
    return [*tables.values(), Text(_RAMP_KEY)] if tables else []


def _arms(finding: Finding) -> list[RenderableType]:
    arms = arms_beside_ramp(finding.arms)
    if not arms:
        return []
    rates = plain_table(
        "\narms", ["arm"], ["GPUs", "issued", "ok", "requests/s", "output tokens/s"]
    )
    latencies = plain_table(
        "\nlatency by arm, ms (outcome ok only)", ["arm", "class", "metric"], _LATENCY_COLUMNS
    )
    for arm in arms:
        whole = arm.throughput["whole"]
        rates.add_row(
            arm.name,
            formatting.count(arm.gpus),
            formatting.count(arm.requests["issued"]),
            formatting.count(arm.requests["ok"]),
            formatting.rate(whole["requests_per_s"] if whole else None),
            formatting.rate(whole["output_tokens_per_s"] if whole else None),
        )
        for number, row in enumerate(arm_rows(arm)):
            name = "" if number else arm.name
            latencies.add_row(name, row.group, row.metric, *_latency_cells(row))
        latencies.add_section()
    return [rates, latencies, Text(_metric_key(finding.arms))]


def _metric_key(groups: Sequence[GroupSummary | Arm]) -> str:
    metrics = [one.metrics if isinstance(one, Arm) else one["metrics"] for one in groups]
    has_legs = any(one["decode_leg"]["count"] for one in metrics)
    return _METRIC_KEY + (_LEG_KEY if has_legs else "")
