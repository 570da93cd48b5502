"""The drawings of a ramp: latencies and throughput against the number of users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from phasemeter.analysis.ramp_levels import ALL, Estimate, RampLevel, by_topology
from phasemeter.report.figure import Figure, Trace, axis, colours, figure, log_ms_axis

_DASHES = {"p50": "solid", "p90": "dash", "p99": "dot"}
_UNKNOWN = Estimate(None, None)
_SYMBOLS = {"p50": "circle", "p90": "diamond", "p99": "square-open"}


def ramp_classes(levels: Iterable[RampLevel]) -> list[str]:
    """Return the classes that were measured anywhere, the shortest prompts first."""
    names = dict.fromkeys(name for level in levels for name in level.classes if name != ALL)
    return list(names)


def ttft_over_users(levels: Sequence[RampLevel], class_name: str) -> Figure:
    """Draw TTFT percentiles of a class against users, a colour a topology."""
    return _latencies(
        levels,
        ("p50", "p90", "p99"),
        lambda level: level.classes[class_name].ttft_ms if class_name in level.classes else {},
        "time to first token, ms",
    )


def gap_over_users(levels: Sequence[RampLevel], class_name: str) -> Figure:
    """Draw gap percentiles of a class against users, a colour a topology."""
    return _latencies(
        levels,
        ("p50", "p99"),
        lambda level: level.classes[class_name].gap_ms if class_name in level.classes else {},
        "gap between token events, ms",
    )


def throughput_over_users(levels: Sequence[RampLevel]) -> Figure:
    """Draw output tokens per second against users, a colour a topology; per GPU on its label."""
    traces = []
    for topology, colour, mine in _by_colour(levels):
        trace = _line(topology, mine, [level.output_tokens_per_s for level in mine], colour)
        trace["text"] = [_rate_label(level) for level in mine if _rate_label(level)]
        trace["hovertemplate"] = "%{x} users: %{text}<extra>" + topology + "</extra>"
        traces.append(trace)
    return figure(
        traces,
        xaxis=_users_axis(levels),
        yaxis=axis("output tokens per second", rangemode="tozero"),
    )


def _latencies(
    levels: Sequence[RampLevel],
    percentiles: Sequence[str],
    values_of: Callable[[RampLevel], Mapping[str, Estimate]],
    y_title: str,
) -> Figure:
    traces = []
    for topology, colour, mine in _by_colour(levels):
        for percentile in percentiles:
            values = [values_of(level).get(percentile, _UNKNOWN) for level in mine]
            if any(value.value is not None for value in values):
                trace = _line(f"{topology}, {percentile}", mine, values, colour, percentile)
                traces.append(trace)
    return figure(traces, xaxis=_users_axis(levels), yaxis=log_ms_axis(y_title), height=420)


def _line(
    name: str,
    levels: Sequence[RampLevel],
    values: Sequence[Estimate],
    colour: str,
    percentile: str = "p50",
) -> Trace:
    """Return a line through the levels; bars are 95 % intervals, missing where there are none."""
    known = [
        (level.users, value.value, value.ci95 or (value.value, value.value))
        for level, value in zip(levels, values, strict=True)
        if value.value is not None
    ]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [users for users, _, _ in known],
        "y": [round(value, 4) for _, value, _ in known],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [round(max(hi - value, 0), 4) for _, value, (_, hi) in known],
            "arrayminus": [round(max(value - lo, 0), 4) for _, value, (lo, _) in known],
            "thickness": 1.2,
            "width": 4,
        },
        "line": {"color": colour, "width": 2.2, "dash": _DASHES[percentile]},
        "marker": {"color": colour, "size": 8, "symbol": _SYMBOLS[percentile]},
        "hovertemplate": "%{x} users: %{y:,.1f} ms<extra>" + name + "</extra>",
    }


def _by_colour(levels: Sequence[RampLevel]) -> list[tuple[str, str, list[RampLevel]]]:
    colour_of = colours(dict.fromkeys(level.topology for level in levels))
    return [(topology, colour_of[topology], mine) for topology, mine in by_topology(levels).items()]


def _users_axis(levels: Sequence[RampLevel]) -> dict[str, object]:
    numbers = sorted({level.users for level in levels})
    return axis(
        "users at the same time",
        type="log",
        tickvals=numbers,
        ticktext=[f"{number:,}" for number in numbers],
        minor={"ticks": ""},
    )


def _rate_label(level: RampLevel) -> str:
    rate, per_gpu = level.output_tokens_per_s.value, level.output_tokens_per_s_per_gpu.value
    if rate is None:
        return ""
    return f"{rate:,.0f} tokens/s" + ("" if per_gpu is None else f" ({per_gpu:,.0f} per GPU)")
