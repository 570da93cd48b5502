"""Steps that were told from arrivals, as rows of text for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.analysis.shape import BudgetInterval, ChunkRow, EngineStepsSummary, Percentiles
from phasemeter.report import formatting

STEP_COLUMNS = (
    "steps",
    "streams",
    "p50",
    "p99",
    "decode only p50",
    "with prompt p50",
    "token budget",
)


def step_rows(engines: Sequence[EngineStepsSummary]) -> list[tuple[str, ...]]:
    """Return (engine, *STEP_COLUMNS) of each engine whose steps were told."""
    return [
        (
            engine_name(one),
            formatting.count(one["steps"]),
            formatting.UNKNOWN if one["streams"] is None else f"{one['streams']:g}",
            formatting.ms(_percentile(one["duration"], "p50")),
            formatting.ms(_percentile(one["duration"], "p99")),
            formatting.ms(_percentile(one["decode_only"], "p50")),
            formatting.ms(_percentile(one["with_prompt"], "p50")),
            budget_text(one["token_budget"]),
        )
        for one in engines
        if one["reason"] is None
    ]


def chunk_lines(engines: Sequence[EngineStepsSummary]) -> list[str]:
    """Return a sentence on the chunks of each engine that cut prompts visibly."""
    return [
        f"{engine_name(one)}, chunks a prompt: {'; '.join(map(_chunks, one['chunks']))}"
        for one in engines
        if one["chunks"]
    ]


def refusal_lines(engines: Sequence[EngineStepsSummary]) -> list[str]:
    """Return why steps or token budgets were not told, a sentence for each reason."""
    lines: dict[str, list[str]] = {}
    for one in engines:
        for what, reason in (("steps", one["reason"]), ("token budget", one["budget_reason"])):
            if reason is not None:
                lines.setdefault(f"{what} not told: {reason}", []).append(engine_name(one))
    return [f"{', '.join(names)}: {line}" for line, names in lines.items()]


def engine_name(engine: EngineStepsSummary) -> str:
    """Return the arm and the number of the instance within it."""
    name = f"{engine['arm']} {engine['instance']}".strip()
    return name if engine["arm"] else f"instance {name}".strip()


def budget_text(budget: BudgetInterval | None) -> str:
    """Return a token budget such as `254 to 289`, or `over 3,003` where no prompt was cut."""
    if budget is None:
        return formatting.UNKNOWN
    if budget["at_most"] is None:
        return f"over {budget['at_least'] - 1:,}"
    if budget["at_least"] == budget["at_most"]:
        return f"{budget['at_least']:,}"
    return f"{budget['at_least']:,} to {budget['at_most']:,}"


def _chunks(row: ChunkRow) -> str:
    counted = row["chunks"]
    if len(counted) == 1:
        return f"{row['prompt_tokens']:,} tokens {next(iter(counted))}"
    told = ", ".join(f"{chunks} ({times}x)" for chunks, times in counted.items())
    return f"{row['prompt_tokens']:,} tokens {told}"


def _percentile(row: Percentiles | None, name: str) -> float | None:
    if row is None:
        return None
    return row["p50"] if name == "p50" else row["p99"]
