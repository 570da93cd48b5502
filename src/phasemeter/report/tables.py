"""Rows of text that the terminal and the page both show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from phasemeter.analysis.finding import Arm
from phasemeter.analysis.shape import (
    ClassSummary,
    GroupSummary,
    Percentiles,
    Rates,
    RequestCounts,
    Throughput,
)
from phasemeter.metrics import BUILTIN
from phasemeter.report import formatting

LEG_METRICS = ("prefill_leg", "handoff", "decode_leg", "second_gap")
"""Of requests with a prefill leg and a decode leg; left out of tables elsewhere."""

KEY_METRICS = ("ttft", "ttft_wire", "ttft_response", *LEG_METRICS, "gap", "tpot", "e2e")
ARM_METRICS = ("ttft", *LEG_METRICS, "gap", "e2e")
OUTCOMES = ("issued", "ok", "error", "truncated", "empty", "cancelled", "abandoned", "in_flight")

_TITLES = {metric.name: metric.title for metric in BUILTIN}


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One metric of one group, all cells as text.

    Attributes:
        group: Class, or class and arm; empty where it repeats the row above.
        metric: Name of the metric.
        title: The metric in words.
        cells: count, p50, p90, p99, p99.9 and maximum.
    """

    group: str
    metric: str
    title: str
    cells: tuple[str, str, str, str, str, str]


def outcome_cells(requests: RequestCounts) -> list[tuple[str, str]]:
    """Return (outcome, count) for issued and every outcome."""
    counts: Mapping[str, object] = requests
    return [(name.replace("_", " "), formatting.count(_int(counts[name]))) for name in OUTCOMES]


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def latency_rows(group: GroupSummary, names: Sequence[str] | None = None) -> list[LatencyRow]:
    """Return the rows of each class, then of all together where there are several classes.

    Args:
        group: The group.
        names: Metrics to show; by default the key metrics, those of legs only where there are any.
    """
    rows: list[LatencyRow] = []
    names = _that_apply(KEY_METRICS, group["metrics"]) if names is None else names
    for class_name, summary in group["classes"].items():
        rows += _rows(class_name, summary["metrics"], names)
    if len(group["classes"]) != 1:
        rows += _rows("all classes", group["metrics"], names)
    return rows


def arm_rows(arm: Arm) -> list[LatencyRow]:
    """Return the rows of each class of an arm."""
    names = _that_apply(ARM_METRICS, arm.metrics)
    return [
        row for name, summary in arm.classes.items() for row in _class_rows(name, summary, names)
    ]


def _that_apply(names: Sequence[str], metrics: Mapping[str, Percentiles]) -> Sequence[str]:
    has_legs = metrics["decode_leg"]["count"] > 0
    return [name for name in names if has_legs or name not in LEG_METRICS]


def _class_rows(name: str, summary: ClassSummary, names: Sequence[str]) -> list[LatencyRow]:
    return _rows(name, summary["metrics"], names)


def _rows(group: str, metrics: Mapping[str, Percentiles], names: Sequence[str]) -> list[LatencyRow]:
    """Leave out metrics that nothing could have (no plan, no answer tokens), never a key metric."""
    always = ("ttft", "gap", "e2e")
    shown = [name for name in names if name in always or metrics[name]["count"]]
    return [
        LatencyRow(group if name == shown[0] else "", name, _TITLES[name], _cells(metrics[name]))
        for name in shown
    ]


def _cells(row: Percentiles) -> tuple[str, str, str, str, str, str]:
    return (
        formatting.count(row["count"]),
        formatting.ms(row["p50"]),
        formatting.ms(row["p90"]),
        formatting.ms(row["p99"]),
        formatting.ms(row["p999"]),
        formatting.ms(row["max"]),
    )


def rate_rows(throughput: Throughput) -> list[tuple[str, str, str, str, str]]:
    """Return (window, bounds, requests/s, output tokens/s, token events/s) for both windows."""
    windows = (("whole run", throughput["whole"]), ("steady window", throughput["steady"]))
    return [_rate_row(name, rates) for name, rates in windows]


def _rate_row(name: str, rates: Rates | None) -> tuple[str, str, str, str, str]:
    if rates is None:
        return (name, *([formatting.UNKNOWN] * 4))  # type: ignore[return-value]
    return (
        name,
        f"{rates['start_s']:.1f} to {rates['end_s']:.1f} s",
        formatting.rate(rates["requests_per_s"]),
        formatting.rate(rates["output_tokens_per_s"]),
        formatting.rate(rates["token_events_per_s"]),
    )


def arms_beside_ramp(arms: Iterable[Arm]) -> list[Arm]:
    """Return the arms that are no level of a ramp: levels have tables and drawings of their own."""
    return [arm for arm in arms if arm.users is None]


def arms_by_topology(arms: Sequence[Arm]) -> Iterator[tuple[str, list[Arm]]]:
    """Yield (topology, its arms), in order of first appearance."""
    order = list(dict.fromkeys(arm.topology for arm in arms))
    ordered = sorted(arms, key=lambda arm: order.index(arm.topology))
    for topology, members in groupby(ordered, key=lambda arm: arm.topology):
        yield topology, list(members)
