"""Fills HDR histograms from arrays, and reads percentiles out of them, at array speed.

The arithmetic is HdrHistogram's own (1 us to 1 h, 3 significant digits): values that fall into one
bucket are counted together first, so that a million samples cost a few thousand calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.shape import Percentiles
from phasemeter.core.clock import NS_PER_US
from phasemeter.sinks.histogram import HIGHEST_US, LOWEST_US, PERCENTILES, new_histogram

if TYPE_CHECKING:
    import numpy.typing as npt
    from hdrh.histogram import HdrHistogram

_US_PER_MS = 1_000


def histogram_of(values_ns: npt.NDArray[np.int64]) -> tuple[HdrHistogram, int]:
    """Return a new histogram of the values, and how many were clamped."""
    histogram = new_histogram()
    return histogram, fill(histogram, values_ns)


def fill(histogram: HdrHistogram, values_ns: npt.NDArray[np.int64]) -> int:
    """Record an array of times in ns, each as `sinks.histogram.record_ns` would.

    Times are rounded to whole microseconds; what is then below 1 us or above 1 h is clamped.

    Returns:
        How many values were clamped.
    """
    if values_ns.size == 0:
        return 0
    values_us = (values_ns + NS_PER_US // 2) // NS_PER_US
    clamped = int(np.count_nonzero((values_us < LOWEST_US) | (values_us > HIGHEST_US)))
    values_us = np.clip(values_us, LOWEST_US, HIGHEST_US)
    buckets, counts = np.unique(_lowest_equivalent(histogram, values_us), return_counts=True)
    for value, count in zip(buckets.tolist(), counts.tolist(), strict=True):
        histogram.record_value(value, count)
    return clamped


def _lowest_equivalent(
    histogram: HdrHistogram, values: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the smallest value of each value's bucket."""
    bits = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    sub_bucket_bits = histogram.sub_bucket_half_count_magnitude + 1
    shift = np.maximum(bits - sub_bucket_bits, int(histogram.unit_magnitude))
    lowest: npt.NDArray[np.int64] = (values >> shift) << shift
    return lowest


def percentiles(histogram: HdrHistogram, *, clamped: int = 0) -> Percentiles:
    """Return count, p50, p90, p99, p99.9 and maximum in ms; None where nothing was recorded."""
    row = Percentiles(
        count=int(histogram.get_total_count()),
        p50=None,
        p90=None,
        p99=None,
        p999=None,
        max=None,
        unit="ms",
        clamped=clamped,
    )
    if row["count"] == 0:
        return row
    values = values_at_ms(histogram, [percent for _, percent in PERCENTILES])
    row["p50"], row["p90"], row["p99"], row["p999"] = values
    row["max"] = histogram.get_max_value() / _US_PER_MS
    return row


def values_at_ms(histogram: HdrHistogram, percents: list[float]) -> list[float]:
    """Return the values in ms at the given percentiles (0 to 100) of a histogram that holds any.

    As HdrHistogram does, the value is the upper end of the bucket in which the percentile falls.
    """
    counts = np.ctypeslib.as_array(histogram.counts)
    running = np.cumsum(counts, dtype=np.int64)
    targets = [int(histogram.get_target_count_at_percentile(percent)) for percent in percents]
    indexes = np.searchsorted(running, targets, side="left").tolist()
    return [
        histogram.get_highest_equivalent_value(histogram.get_value_from_index(index)) / _US_PER_MS
        for index in indexes
    ]
