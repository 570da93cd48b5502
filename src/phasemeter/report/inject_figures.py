"""Drawings of the grid of injections: gaps over prompt length, and how long stalls were."""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.analysis.injection import Cell, Effect, Spread
from phasemeter.report.figure import (
    Figure,
    Trace,
    axis,
    colours,
    figure,
    log_ms_axis,
    log_range,
    translucent,
)

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")


def gaps_over_length(cells: Sequence[Cell]) -> Figure:
    """Draw one topology's background gaps over the length of the injected prompt.

    A colour for each number of background users, a symbol for each number of prompts together.
    Shaded: p50 to p99 of the gaps before, outlined: of the gaps after.
    """
    lengths = sorted({cell.prompt_tokens for cell in cells})
    colour_of = colours(_users(cell) for cell in cells)
    symbol_of = {
        together: _SYMBOLS[place % len(_SYMBOLS)]
        for place, together in enumerate(sorted({cell.together for cell in cells}))
    }
    ends = (lengths[0] / 1.3, lengths[-1] * 1.3)
    traces: list[Trace] = []
    for users, colour in colour_of.items():
        one = next(cell for cell in cells if _users(cell) == users)
        traces += _band(f"{users}: before", one.baseline_gap_ms, ends, colour, filled=True)
        traces += _band(f"{users}: after", one.recovery_gap_ms, ends, colour, filled=False)
    for users, colour in colour_of.items():
        for together, symbol in symbol_of.items():
            drawn = [
                cell
                for cell in cells
                if (_users(cell), cell.together) == (users, together) and cell.overlapped
            ]
            for name, dash, heights in (
                ("longest", "solid", [cell.longest_gap_p50_ms for cell in drawn]),
                ("p99", "dash", [cell.exposed_gap_ms.p99 for cell in drawn]),
                ("p50", "dot", [cell.exposed_gap_ms.p50 for cell in drawn]),
            ):
                if drawn:
                    label = f"{users}, n = {together}: {name}"
                    xs = [cell.prompt_tokens for cell in drawn]
                    line = _line(label, xs, heights, colour, dash, symbol)
                    # Where an injection lasts for few steps, most gaps beside it are as short as ever.
                    traces.append(line | {"visible": "legendonly"} if name == "p50" else line)
    return figure(
        traces,
        xaxis=axis(
            "length of each injected prompt, tokens",
            type="log",
            tickvals=lengths,
            ticktext=[f"{length:,}" for length in lengths],
        ),
        yaxis=log_ms_axis("background gap, ms"),
        height=480 + 12 * len(traces),
        margin={"l": 70, "r": 24, "t": 64 + 24 * -(-len(traces) // 4), "b": 56},  # 4 names a line
    )


def stall_lengths(effects: Sequence[Effect]) -> Figure:
    """Draw the share of stalls that were no longer than a length, while prompts were injected."""
    drawn = [one for one in effects if one.stalls["inject"].curve_ms]
    colour_of = colours(_label(one) for one in drawn)
    traces: list[Trace] = []
    for one in drawn:
        curve = one.stalls["inject"].curve_ms
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{_label(one)} (n = {one.stalls['inject'].length_ms.count:,})",
                "x": list(curve),
                "y": [round(100 * rank / len(curve), 2) for rank in range(1, len(curve) + 1)],
                "line": {"color": colour_of[_label(one)], "width": 2.2, "shape": "hv"},
                "hovertemplate": "%{y:.0f} % up to %{x:,.1f} ms<extra>%{fullData.name}</extra>",
            }
        )
    return figure(
        traces,
        xaxis=log_ms_axis(
            "length of a stall, ms",
            **({"range": log_range(lengths)} if (lengths := _all_lengths(drawn)) else {}),
        ),
        yaxis=axis("share of stalls, %", range=[0, 103]),
    )


def _all_lengths(effects: Sequence[Effect]) -> list[float]:
    return [length_ms for one in effects for length_ms in one.stalls["inject"].curve_ms]


def _users(cell: Cell) -> str:
    return "background" if cell.users is None else f"{cell.users} users"


def _label(effect: Effect) -> str:
    return effect.arm if effect.users is None else f"{effect.arm}, {effect.users} users"


def _line(
    name: str,
    lengths: Sequence[int],
    heights_ms: Sequence[float | None],
    colour: str,
    dash: str,
    symbol: str,
) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(lengths),
        "y": [None if height is None else round(height, 4) for height in heights_ms],
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"color": colour, "size": 9, "symbol": symbol},
        "hovertemplate": "%{x:,} tokens: %{y:,.1f} ms<extra>%{fullData.name}</extra>",
    }


def _band(
    name: str, gaps: Spread, ends: tuple[float, float], colour: str, *, filled: bool
) -> list[Trace]:
    if gaps.p50 is None or gaps.p99 is None:
        return []
    low, high = round(gaps.p50, 4), round(gaps.p99, 4)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{name}, p50 to p99",
            "x": [ends[0], ends[1], ends[1], ends[0], ends[0]],
            "y": [low, low, high, high, low],
            "line": {"color": colour, "width": 0 if filled else 1, "dash": "dot"},
            "hoverinfo": "name",
            **({"fill": "toself", "fillcolor": translucent(colour, 0.18)} if filled else {}),
        }
    ]
