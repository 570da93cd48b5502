"""Interval bars as inline SVG: a line from lo to hi, a dot at the value, a mark at 1, on one log scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from phasemeter.analysis.finding import Factor
from phasemeter.report import formatting

WIDTH_PX = 220
HEIGHT_PX = 18
_EDGE_PX = 8


def interval_bars(factors: Sequence[Factor]) -> list[Markup]:
    """Return one drawing a factor; empty where its value is unknown or not positive."""
    bounds = [value for factor in factors for value in _numbers(factor) if value > 0]
    lowest, highest = min([*bounds, 0.9]), max([*bounds, 1.1])
    return [_bar(factor, math.log(lowest), math.log(highest)) for factor in factors]


def _numbers(factor: Factor) -> tuple[float, ...]:
    value = () if factor.value is None else (factor.value,)
    return value + (factor.ci95 or ())


def _bar(factor: Factor, log_lowest: float, log_highest: float) -> Markup:
    if factor.value is None or factor.value <= 0:
        return Markup("")

    def x_px(value: float) -> float:
        share = (math.log(value) - log_lowest) / (log_highest - log_lowest)
        return round(_EDGE_PX + min(max(share, 0), 1) * (WIDTH_PX - 2 * _EDGE_PX), 1)

    middle = HEIGHT_PX / 2
    side = {"higher": "above", "lower": "below"}.get(formatting.effect(factor), "unclear")
    parts = [f'<line class="one" x1="{x_px(1)}" x2="{x_px(1)}" y1="0" y2="{HEIGHT_PX}"/>']
    if factor.ci95 is not None and min(factor.ci95) > 0:
        lo_px, hi_px = x_px(factor.ci95[0]), x_px(factor.ci95[1])
        parts.append(f'<line class="ci" x1="{lo_px}" x2="{hi_px}" y1="{middle}" y2="{middle}"/>')
    parts.append(f'<circle cx="{x_px(factor.value)}" cy="{middle}" r="4.5"/>')
    return Markup(
        f'<svg class="cibar {side}" width="{WIDTH_PX}" height="{HEIGHT_PX}" '
        f'role="img" aria-label="interval">{"".join(parts)}</svg>'
    )
