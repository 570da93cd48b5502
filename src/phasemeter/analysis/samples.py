"""Samples of every built-in metric, by request class; the raw material of summaries and pages.

Latency statistics are over responses with outcome ok.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.metrics import BUILTIN, Metric

Samples = Mapping[str, npt.NDArray[np.int64]]
"""Metric name to samples in ns."""

UNCLASSED = "all"
"""Class of requests without a `class` tag."""


def class_of(tags: Mapping[str, str]) -> str:
    """Return the request class that a set of tags names."""
    return tags.get("class", UNCLASSED)


def by_class(timelines: Iterable[Timeline]) -> dict[str, list[Timeline]]:
    """Group responses by class, classes in order of their name."""
    groups: dict[str, list[Timeline]] = defaultdict(list)
    for timeline in timelines:
        groups[class_of(timeline.tags)].append(timeline)
    return dict(sorted(groups.items()))


def samples_ns(metric: Metric, timelines: Iterable[Timeline]) -> npt.NDArray[np.int64]:
    """Return all samples of a metric in ns, in order of the responses."""
    return np.fromiter(chain.from_iterable(map(metric.samples, timelines)), dtype=np.int64)


def collect(timelines: Sequence[Timeline]) -> dict[str, Samples]:
    """Return the samples of every built-in metric over the ok responses, by class."""
    finished = [timeline for timeline in timelines if timeline.outcome is Outcome.OK]
    return {
        name: {metric.name: samples_ns(metric, group) for metric in BUILTIN}
        for name, group in by_class(finished).items()
    }


def pooled(classes: Mapping[str, Samples], metric_name: str) -> npt.NDArray[np.int64]:
    """Return one metric's samples of all classes together."""
    parts = [samples[metric_name] for samples in classes.values()]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
