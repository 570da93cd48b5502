"""HDR histograms of every metric, one set a model and combination of tags, since the start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from phasemeter.core.clock import PROCESS_ANCHOR, now_ns
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.metrics import BUILTIN, GAP, GAP_RAW
from phasemeter.sinks.backlog import Backlog
from phasemeter.sinks.histogram import (
    add,
    count_us,
    new_histogram,
    record_counts,
    summary_ms,
)
from phasemeter.sinks.hlog import write_interval_log
from phasemeter.transports.request import RequestInfo

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

_BATCH_SAMPLES = 250
_TOGETHER_SAMPLES = 1_000
"""Samples of responses that wait to be worked off together. More cost less each, and hold the interpreter
longer, which makes the stamps of other threads late."""
_COUNTED_TOGETHER = 250
"""Samples of a metric that are kept until they are counted: one by one it takes ten times as long."""
OTHER = "(other)"
"""Model of the group that takes what comes after the allowed number of groups."""

_Key = tuple[str | None, tuple[tuple[str, str], ...]]


class _Group:
    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.clamped: Counter[str] = Counter()
        self.coalesced_events = 0
        self._histograms: dict[str, HdrHistogram] = {}
        self._waiting_ns: defaultdict[str, list[int]] = defaultdict(list)  # not counted yet
        self._counts: dict[str, Counter[int]] = {}  # of what is not in the histograms yet

    def record(self, parts: Iterable[tuple[str, Sequence[int]]]) -> None:
        for metric, values_ns in parts:
            waiting_ns = self._waiting_ns[metric]
            waiting_ns += values_ns
            if len(waiting_ns) >= _COUNTED_TOGETHER:
                self._count(metric, waiting_ns)

    def _count(self, metric: str, waiting_ns: list[int]) -> None:
        count_us(self._counts.setdefault(metric, Counter()), waiting_ns)
        waiting_ns.clear()

    def histograms(self) -> Mapping[str, HdrHistogram]:
        """All raw gaps are recorded as gaps already, but for those that the consumer limited."""
        for metric, waiting_ns in self._waiting_ns.items():
            self._count(metric, waiting_ns)
        for metric, counts in self._counts.items():
            clamped = record_counts(self._histogram(metric), counts)
            if metric == GAP.name:
                clamped_raw = record_counts(self._histogram(GAP_RAW.name), counts)
                self.clamped[GAP_RAW.name] += clamped_raw
            self.clamped[metric] += clamped
            counts.clear()
        return self._histograms

    def _histogram(self, metric: str) -> HdrHistogram:
        if metric not in self._histograms:
            self._histograms[metric] = new_histogram()
        return self._histograms[metric]


_Batch = tuple[_Group, list[tuple[str, Sequence[int]]]]


class HdrSink:
    """Latency distributions. Only responses of outcome ok feed them; all outcomes are counted.

    Samples are counted when there are enough to do it together (about 0.2 us each), and go into
    histograms when somebody looks. Ten or so
    histograms of about 100 KiB each stand behind a group of streamed responses, so groups are
    bounded. Thread-safe.

    Args:
        max_groups: Combinations of model and tags that are kept apart; later ones share one group.
    """

    def __init__(self, *, max_groups: int = 64) -> None:
        if max_groups < 1:
            msg = f"max_groups must be >= 1, got {max_groups}"
            raise ValueError(msg)
        self._max_groups = max_groups
        self._groups: dict[_Key, _Group] = {}
        self._lock = RLock()
        self._started_unix_ns = PROCESS_ANCHOR.unix_ns_at(now_ns())
        self._backlog: Backlog[_Batch] = Backlog(self._record, least_samples=_TOGETHER_SAMPLES)

    def started(self, request: RequestInfo) -> None:
        """Nothing to do: a sample exists when a response has ended."""

    def finished(self, timeline: Timeline, state: object) -> None:
        """Count the outcome; queue the samples of an ok response."""
        del state
        with self._lock:
            tags = timeline.tags
            group = self._group((timeline.model, tuple(sorted(tags.items())) if tags else ()))
            group.outcomes[timeline.outcome.value] += 1
        self._backlog.add(self._batches(group, timeline), len(timeline.events) + 1)

    def close(self) -> None:
        """Record what is queued."""
        self._backlog.drain()

    def snapshot(self) -> dict[str, object]:
        """Return what was measured so far, ready for JSON.

        Returns:
            `{"groups": [{"model", "tags", "outcomes": {OUTCOME: n}, "coalesced", "clamped":
            {NAME: n}, "metrics": {NAME: {count, p50, p90, p99, p999, max, unit: "ms"}}}]}`, metrics
            in the order and by the names of `phasemeter.metrics`.
        """
        self._backlog.drain()  # before our lock: draining takes its own lock first, then ours
        with self._lock:
            return {
                "groups": [self._group_document(key, one) for key, one in self._groups.items()],
                "dropped": self._backlog.dropped,
            }

    def histograms(self) -> dict[str, HdrHistogram]:
        """Return one histogram a metric, merged over all groups."""
        merged: dict[str, HdrHistogram] = {}
        self._backlog.drain()
        with self._lock:
            for group in self._groups.values():
                for name, histogram in group.histograms().items():
                    if name not in merged:
                        merged[name] = new_histogram()
                    add(merged[name], histogram)
        return merged

    def write_log(self, path: Path) -> None:
        """Write the merged histograms as an interval log, from this sink's start until now."""
        write_interval_log(
            path, self.histograms(), self._started_unix_ns, PROCESS_ANCHOR.unix_ns_at(now_ns())
        )

    def _group(self, key: _Key) -> _Group:
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= self._max_groups:
                key = (OTHER, ())
            group = self._groups.setdefault(key, _Group())
        return group

    def _batches(self, group: _Group, timeline: Timeline) -> Iterator[_Batch]:
        with self._lock:
            group.coalesced_events += timeline.coalesced_events
        if timeline.outcome is not Outcome.OK:
            return
        few: list[tuple[str, Sequence[int]]] = []
        for name, samples in _SAMPLES:
            samples_ns = samples(timeline)
            if not samples_ns:
                continue
            if len(samples_ns) <= _BATCH_SAMPLES:
                few.append((name, samples_ns))
                continue
            for start in range(0, len(samples_ns), _BATCH_SAMPLES):
                yield group, [(name, samples_ns[start : start + _BATCH_SAMPLES])]
        yield group, few

    def _record(self, batch: _Batch) -> None:
        group, parts = batch
        with self._lock:
            group.record(parts)

    def _group_document(self, key: _Key, group: _Group) -> Mapping[str, object]:
        model, tags = key
        histograms = group.histograms()
        return {
            "model": model,
            "tags": dict(tags),
            "outcomes": dict(group.outcomes),
            "coalesced": group.coalesced_events,
            "clamped": dict(+group.clamped),
            "metrics": {
                metric.name: summary_ms(histograms[metric.name])
                for metric in BUILTIN
                if metric.name in histograms
            },
        }


def _limited_ns(timeline: Timeline) -> Sequence[int]:
    if not timeline.streamed or not timeline.consumer_limited_gaps:
        return ()
    return timeline.limited_gaps_ns()


_SAMPLES: tuple[tuple[str, Callable[[Timeline], Sequence[int]]], ...] = tuple(
    (metric.name, metric.samples if metric is not GAP_RAW else _limited_ns) for metric in BUILTIN
)
