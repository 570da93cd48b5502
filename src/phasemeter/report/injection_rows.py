"""Rows of what injected prompts did, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterable

from phasemeter.analysis.injection import Cell, Effect
from phasemeter.analysis.ramp_levels import Estimate
from phasemeter.report import formatting

CELL_COLUMNS = (
    "users",
    "tokens",
    "n",
    "overlap",
    "gap p50",
    "gap p99",
    "longest",
    "x undisturbed",
    "TTFT x alone",
)
CELL_KEY = (
    "users: background users; n: prompts injected at once; overlap: injections that overlapped decoding\n"
    "streams, of all; gap: exposed background gaps, ms; longest: median over injections of the longest;\n"
    "x undisturbed: that against as long a time between injections (or before them) [95 % interval]"
)
EFFECT_COLUMNS = (
    "users",
    "decoding",
    "ms/token",
    "lost",
    "stalls",
    "p50",
    "max",
    "missed",
    "recovery",
)
EFFECT_KEY = (
    "decoding: streams that really were, on average; ms/token: decode time that a prompt token cost each\n"
    "stream; lost: share of decode time; stalls: gaps over 5 times their stream's median, p50 and max in\n"
    "ms; missed: token deadlines of twice the baseline's median gap; recovery: median until gaps are back\n"
    "in the baseline's band, engine steps and ms"
)


def cell_rows(cells: Iterable[Cell]) -> list[tuple[str, ...]]:
    """Return a row a cell, as `CELL_COLUMNS` name it."""
    return [
        (
            formatting.count(cell.users),
            formatting.count(cell.prompt_tokens),
            formatting.count(cell.together),
            f"{cell.overlapped}/{cell.injections}",
            formatting.ms(cell.exposed_gap_ms.p50),
            formatting.ms(cell.exposed_gap_ms.p99),
            formatting.ms(cell.longest_gap_p50_ms),
            _estimate(cell.longest_gap_factor),
            _number(cell.ttft_factor.value),
        )
        for cell in cells
    ]


def effect_rows(effects: Iterable[Effect]) -> list[tuple[str, ...]]:
    """Return a row a number of background users, as `EFFECT_COLUMNS` name it."""
    return [
        (
            formatting.count(effect.users),
            _number(effect.decoding.get("inject")),
            _estimate(effect.lost_ms_per_prompt_token),
            _share(effect.lost_share.value),
            formatting.count(effect.stalls["inject"].length_ms.count),
            formatting.ms(effect.stalls["inject"].length_ms.p50),
            formatting.ms(effect.stalls["inject"].length_ms.max),
            _share(effect.deadlines_missed.get("inject")),
            _recovery(effect),
        )
        for effect in effects
    ]


def _recovery(effect: Effect) -> str:
    recovery = effect.recovery
    if recovery.steps_p50 is None or recovery.ms_p50 is None:
        return formatting.UNKNOWN
    return f"{recovery.steps_p50:g}, {recovery.ms_p50:.1f}"


def _estimate(estimate: Estimate) -> str:
    if estimate.value is None:
        return formatting.UNKNOWN
    if estimate.ci95 is None:
        return _number(estimate.value)
    lo, hi = estimate.ci95
    return f"{_number(estimate.value)} [{_number(lo)}, {_number(hi)}]"


def _number(value: float | None) -> str:
    return formatting.UNKNOWN if value is None else f"{value:.3g}"


def _share(value: float | None) -> str:
    return formatting.UNKNOWN if value is None else f"{100 * value:.1f}%"
