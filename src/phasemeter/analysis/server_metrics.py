"""What the servers said about themselves during each condition, from the samples of their metrics.

Counters are differences of the sample after a condition and the one before it, times are means
(difference of the sum over difference of the count), gauges are the largest of all samples. Figures are
over the instances of a role and over all repeats. What no instance told is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from phasemeter.analysis.shape import ServerFigures
from phasemeter.telemetry.sample import Role, ServerSample
from phasemeter.telemetry.signals import COUNTERS, Counter, Gauge

_Group = tuple[str, str, int | None, Role]
_WENT_BACK = "its counters went back: it was restarted during the run"
_CUT_OFF = "no sample after the condition: the run was cut off"


def server_figures(samples: Sequence[ServerSample]) -> list[ServerFigures]:
    """Return the figures of each condition and role, in the order in which they were first run."""
    groups: dict[_Group, list[ServerSample]] = {}
    for sample in samples:
        key = (sample.arm, sample.condition, sample.users, sample.role)
        groups.setdefault(key, []).append(sample)
    return [_figures(group, members) for group, members in groups.items()]


def _figures(group: _Group, samples: Sequence[ServerSample]) -> ServerFigures:
    arm, condition, users, role = group
    stretches: dict[tuple[int, int], list[ServerSample]] = {}
    for sample in samples:
        stretches.setdefault((sample.repeat, sample.instance), []).append(sample)
    deltas: list[Mapping[Counter, float]] = []
    reasons: list[str] = []
    for stretch in stretches.values():
        delta, reason = _delta(stretch)
        deltas.append(delta)
        if reason is not None:
            reasons.append(reason)
    sums = _Sums(deltas)
    count, mean_ms, largest = sums.count, sums.mean_ms, _largest
    return ServerFigures(
        arm=arm,
        condition=condition,
        users=users,
        role=role,
        instances=len({sample.instance for sample in samples}),
        flavour=next((sample.flavour for sample in samples if sample.flavour), None),
        reasons=list(dict.fromkeys(reasons)),
        requests=count("requests"),
        prompt_tokens=count("prompt_tokens"),
        prompt_tokens_computed=count("prompt_tokens_computed"),
        generation_tokens=count("generation_tokens"),
        preemptions=count("preemptions"),
        prefix_cache_queries_tokens=count("prefix_cache_queries_tokens"),
        prefix_cache_hits_tokens=count("prefix_cache_hits_tokens"),
        external_cache_queries_tokens=count("external_cache_queries_tokens"),
        external_cache_hits_tokens=count("external_cache_hits_tokens"),
        queue_time_mean_ms=mean_ms("queue_time_s", "queue_time_count"),
        prefill_time_mean_ms=mean_ms("prefill_time_s", "prefill_time_count"),
        kv_transfers=count("kv_transfers"),
        kv_transfer_bytes=count("kv_transfer_bytes"),
        kv_transfer_time_mean_ms=mean_ms("kv_transfer_time_s", "kv_transfers"),
        kv_transfers_failed=count("kv_transfers_failed"),
        running_requests_max=_whole(largest(samples, "running_requests")),
        waiting_requests_max=_whole(largest(samples, "waiting_requests")),
        kv_cache_usage_max=largest(samples, "kv_cache_usage"),
    )


def _delta(samples: Sequence[ServerSample]) -> tuple[Mapping[Counter, float], str | None]:
    """Return what an instance's counters gained over one stretch, or why that is not known."""
    start = next((one for one in samples if one.moment == "start"), None)
    end = next((one for one in samples if one.moment == "end"), None)
    for sample in (start, end):
        if sample is not None and sample.reason is not None:
            return {}, sample.reason
    if start is None or end is None:
        return {}, _CUT_OFF
    # A counter with labels is not on the page before it has counted something.
    gained = {
        name: end.values[name] - start.values.get(name, 0.0)
        for name in COUNTERS
        if name in end.values
    }
    if any(value < 0 for value in gained.values()):
        return {}, _WENT_BACK
    return gained, None


class _Sums:
    """Sums over stretches; None where none of them told."""

    def __init__(self, deltas: Iterable[Mapping[Counter, float]]) -> None:
        self._deltas = list(deltas)

    def total(self, name: Counter) -> float | None:
        told = [delta[name] for delta in self._deltas if name in delta]
        return sum(told) if told else None

    def count(self, name: Counter) -> int | None:
        return _whole(self.total(name))

    def mean_ms(self, seconds: Counter, count: Counter) -> float | None:
        total_s, number = self.total(seconds), self.total(count)
        return None if total_s is None or not number else total_s / number * 1_000


def _largest(samples: Iterable[ServerSample], name: Gauge) -> float | None:
    return max((one.values[name] for one in samples if name in one.values), default=None)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
