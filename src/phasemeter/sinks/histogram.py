"""HDR histograms as phasemeter uses them: 1 us to 1 h, three significant digits, in whole microseconds.

The unit is 1 us: a value is rounded to it, and above 2 ms the error is at most 0.1 %. A value out of
range is clamped, and the caller is told so that it can be counted. One histogram takes about 100 KiB and
is not thread-safe.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping

from hdrh.codec import HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram

from phasemeter.core.clock import NS_PER_US

LOWEST_US = 1
HIGHEST_US = 3_600_000_000
SIGNIFICANT_DIGITS = 3
_HALF_US_NS = NS_PER_US // 2
_KEPT_BITS = 11
_EXACT_US = 1 << _KEPT_BITS
PERCENTILES: tuple[tuple[str, float], ...] = (("p50", 50), ("p90", 90), ("p99", 99), ("p999", 99.9))

_UNDECODABLE = (
    ValueError,
    TypeError,
    RuntimeError,
    LookupError,
    zlib.error,
    HdrCookieException,
    HdrLengthException,
)


def new_histogram() -> HdrHistogram:
    """Return an empty histogram for times, in microseconds."""
    return HdrHistogram(LOWEST_US, HIGHEST_US, SIGNIFICANT_DIGITS, word_size=4)


def record_ns(histogram: HdrHistogram, value_ns: int, count: int = 1) -> bool:
    """Record a time and tell whether it had to be clamped to 1 us .. 1 h. About 2 us."""
    value_us = (value_ns + NS_PER_US // 2) // NS_PER_US
    if LOWEST_US <= value_us <= HIGHEST_US and histogram.record_value(value_us, count):
        return False
    histogram.record_value(LOWEST_US if value_us < LOWEST_US else HIGHEST_US, count)
    return True


def count_us(counts_of_us: Counter[int], values_ns: Iterable[int]) -> None:
    """Count times in whole us, as coarse as a histogram keeps them, so that few distinct ones arise.

    A histogram keeps 11 bits of a value: what lies between two that it can tell apart is the lower one.
    """
    values_us = [(value_ns + _HALF_US_NS) // NS_PER_US for value_ns in values_ns]
    if max(values_us, default=0) >= _EXACT_US:
        values_us = [
            one if one < _EXACT_US else one >> (bits := one.bit_length() - _KEPT_BITS) << bits
            for one in values_us
        ]
    counts_of_us.update(values_us)


def record_counts(histogram: HdrHistogram, counts_of_us: Mapping[int, int]) -> int:
    """Record values in us, each so many times; return how many had to be clamped to 1 us .. 1 h."""
    clamped = 0
    for value_us, count in counts_of_us.items():
        if LOWEST_US <= value_us <= HIGHEST_US and histogram.record_value(value_us, count):
            continue
        histogram.record_value(LOWEST_US if value_us < LOWEST_US else HIGHEST_US, count)
        clamped += count
    return clamped


def encoded(histogram: HdrHistogram) -> str:
    """Return a histogram in HdrHistogram's V2 compressed form, as base64."""
    text: str = histogram.encode().decode("ascii")
    return text


def decoded(text: str) -> HdrHistogram | None:
    """Return the histogram that `encoded` made a text of, or None if the text is none."""
    try:
        return HdrHistogram.decode(text.encode("ascii"))
    except _UNDECODABLE:
        return None


def add(into: HdrHistogram, other: HdrHistogram) -> None:
    """Add another histogram's counts, without loss.

    Raises:
        ValueError: If the two have other ranges or digits; adding those would widen the error.
    """
    ours, theirs = _parameters(into), _parameters(other)
    if ours != theirs:
        msg = f"histograms of (lowest, highest, digits) {theirs} cannot be added to {ours}"
        raise ValueError(msg)
    into.add(other)


def summary_ms(histogram: HdrHistogram) -> dict[str, float | str | None]:
    """Return count, percentiles and maximum in ms; None for what an empty histogram has not."""
    count: int = histogram.get_total_count()
    summary: dict[str, float | str | None] = {"count": count}
    if count:
        values = histogram.get_percentile_to_value_dict([p for _, p in PERCENTILES])
        summary |= {name: values[p] / 1000 for name, p in PERCENTILES}
        summary["max"] = histogram.get_max_value() / 1000
    else:
        summary |= dict.fromkeys([*(name for name, _ in PERCENTILES), "max"])
    return {**summary, "unit": "ms"}


def _parameters(histogram: HdrHistogram) -> tuple[int, int, int]:
    return (
        histogram.lowest_trackable_value,
        histogram.highest_trackable_value,
        histogram.significant_figures,
    )
