"""Durations of an engine's steps around one prompt: the chunks as the streams beside it felt them."""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.analysis.chunks import ChunkCount
from phasemeter.analysis.engine_steps import EngineSteps
from phasemeter.analysis.steps import UNKNOWN_NS, StepSeries
from phasemeter.core.clock import NS_PER_MS
from phasemeter.report.figure import MUTED_COLOUR, PALETTE, Figure, Trace, axis, figure

_STEPS_AROUND = 12
_MOST_STEPS = 400


def steps_figure(engines: Sequence[EngineSteps]) -> tuple[Figure, str] | None:
    """Draw the steps around the longest prompt whose chunks were counted, and say what is drawn.

    None where no chunks were counted.
    """
    counted = [(one, count) for one in engines for count in one.counts]
    if not counted:
        return None
    engine, count = max(counted, key=lambda pair: (pair[1].chunks, pair[1].prompt_tokens))
    if count.chunks > _MOST_STEPS or not isinstance(engine.series, StepSeries):
        return None
    name = f"{engine.arm} {engine.instance}".strip()
    told = (
        f"{count.prompt_tokens:,} prompt tokens in {count.chunks} "
        f"{'chunk' if count.chunks == 1 else 'chunks'}{f', {name}' if name else ''}"
    )
    return _drawn(engine.series, count), told


def _drawn(series: StepSeries, count: ChunkCount) -> Figure:
    begin = max(count.steps.start - _STEPS_AROUND, 0)
    end = min(count.steps.stop + _STEPS_AROUND, series.ends_ns.size)
    known = [n for n in range(begin, end) if series.durations_ns[n] != UNKNOWN_NS]
    origin_ns = int(series.ends_ns[count.steps.start - 1])
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": name,
            "x": [_ms(series.ends_ns[n] - series.durations_ns[n] / 2 - origin_ns) for n in numbers],
            "y": [_ms(series.durations_ns[n]) for n in numbers],
            "width": [_ms(series.durations_ns[n]) * 0.92 for n in numbers],
            "marker": {"color": colour},
            "hovertemplate": "step of %{y:,.1f} ms<extra>" + name + "</extra>",
        }
        for name, colour, numbers in (
            ("holds a chunk", PALETTE[1], [n for n in known if n in count.steps]),
            ("decode only", MUTED_COLOUR, [n for n in known if n not in count.steps]),
        )
    ]
    return figure(
        traces,
        xaxis=axis("time since the prompt's first chunk began, ms"),
        yaxis=axis("duration of the step, ms", rangemode="tozero"),
        height=320,
    )


def _ms(value_ns: float) -> float:
    return round(float(value_ns) / NS_PER_MS, 4)
