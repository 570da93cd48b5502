"""What the servers said about themselves, as rows of text that the terminal and the page both show."""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.analysis.shape import ServerFigures
from phasemeter.report import formatting

COLUMNS = (
    "condition",
    "role",
    "prompt",
    "cached",
    "queue",
    "prefill",
    "run",
    "wait",
    "pulls",
    "MB",
)
WORDS = 2
"""Columns that hold words."""

KEY = (
    "prompt, cached: prompt tokens, and those from the prefix cache; queue, prefill: mean ms per request; "
    "run, wait: most requests at a time; pulls, MB: KV caches taken over from other instances"
)


def server_rows(figures: Sequence[ServerFigures]) -> list[tuple[str, ...]]:
    """Return a row for each condition and role that told something."""
    return [_row(one) for one in figures if one["flavour"] is not None]


def server_notes(figures: Sequence[ServerFigures]) -> list[str]:
    """Return why figures are missing, and what should not have happened, each in a sentence."""
    notes: dict[str, None] = {}
    for one in figures:
        where = f"{_condition(one)}, {_role(one)}"
        for reason in one["reasons"]:
            notes[f"{one['arm']}, {_role(one)}: {reason}"] = None
        if one["preemptions"]:
            notes[f"{where}: {one['preemptions']:,} preemptions"] = None
        if one["kv_transfers_failed"]:
            notes[f"{where}: {one['kv_transfers_failed']:,} transfers failed"] = None
        if one["role"] == "decode" and one["prompt_tokens_computed"]:
            notes[f"{where}: {one['prompt_tokens_computed']:,} prompt tokens worked out"] = None
    return list(notes)


def _row(one: ServerFigures) -> tuple[str, ...]:
    transferred = one["kv_transfer_bytes"]
    return (
        _condition(one),
        _role(one),
        formatting.count(one["prompt_tokens"]),
        formatting.count(one["prefix_cache_hits_tokens"]),
        formatting.ms(one["queue_time_mean_ms"]),
        formatting.ms(one["prefill_time_mean_ms"]),
        formatting.count(one["running_requests_max"]),
        formatting.count(one["waiting_requests_max"]),
        formatting.count(one["kv_transfers"]),
        formatting.rate(None if transferred is None else transferred / 1e6),
    )


def _condition(one: ServerFigures) -> str:
    if one["arm"] == one["condition"]:
        return one["arm"]  # a load run
    users = "" if one["users"] is None else f" {one['users']}"
    return f"{one['arm']}/{one['condition']}{users}"


def _role(one: ServerFigures) -> str:
    role = "all" if one["role"] == "both" else one["role"]
    return role if one["instances"] == 1 else f"{role} x{one['instances']}"
