"""Filling HDR histograms from arrays and reading percentiles from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.analysis.histogram import (
    fill,
    histogram_of,
    percentiles,
    values_at_ms,
)
from phasemeter.sinks.histogram import new_histogram, record_ns

MS = 1_000_000
times_ns = st.lists(st.integers(min_value=1_000, max_value=3_600_000_000_000), min_size=1)


def array(*values_ms):
    return np.array([round(value * MS) for value in values_ms], dtype=np.int64)


def test_percentiles_of_one_to_hundred_ms():
    """p50 is the 50th of 100 ordered samples and so on, within 3 significant digits."""
    histogram, clamped = histogram_of(array(*range(1, 101)))

    row = percentiles(histogram, clamped=clamped)

    assert (row["count"], row["unit"], row["clamped"]) == (100, "ms", 0)
    assert row["p50"] == pytest.approx(50, rel=1e-3)
    assert row["p90"] == pytest.approx(90, rel=1e-3)
    assert row["p99"] == pytest.approx(99, rel=1e-3)
    assert row["p999"] == pytest.approx(100, rel=1e-3)
    assert row["max"] == pytest.approx(100, rel=1e-3)


def test_no_samples_have_unknown_percentiles():
    """A count of 0 comes with None, never with 0 ms."""
    row = percentiles(new_histogram())

    assert row["count"] == 0
    assert {row[name] for name in ("p50", "p90", "p99", "p999", "max")} == {None}


def test_values_out_of_range_are_moved_to_the_bound_and_counted():
    """Below 1 us and above 1 h nothing is lost and nothing is silent."""
    two_hours_ns = 7_200 * 1_000 * MS
    histogram = new_histogram()

    clamped = fill(histogram, np.array([0, -5, 999, 1_000, two_hours_ns], dtype=np.int64))

    assert clamped == 3
    assert histogram.get_total_count() == 5
    row = percentiles(histogram)
    assert row["p50"] == pytest.approx(0.001, rel=1e-3)
    assert row["max"] == pytest.approx(3_600_000, rel=1e-3)


@given(times_ns)
def test_filling_at_once_equals_recording_one_by_one(values_ns):
    """The bucket arithmetic on arrays is HdrHistogram's own."""
    at_once, _ = histogram_of(np.array(values_ns, dtype=np.int64))
    one_by_one = new_histogram()
    for value_ns in values_ns:
        assert not record_ns(one_by_one, value_ns)

    assert list(at_once.counts) == list(one_by_one.counts)
    assert at_once.get_total_count() == one_by_one.get_total_count()
    assert at_once.get_max_value() == one_by_one.get_max_value()
    assert at_once.get_min_value() == one_by_one.get_min_value()


@given(times_ns)
def test_percentiles_equal_those_of_hdrhistogram(values_ns):
    """The fast look-up gives what the histogram's own slow walk gives."""
    histogram, _ = histogram_of(np.array(values_ns, dtype=np.int64))
    asked = [50.0, 90.0, 99.0, 99.9, 100.0]

    own = histogram.get_percentile_to_value_dict(asked)

    assert values_at_ms(histogram, asked) == [own[percent] / 1000 for percent in asked]


@given(times_ns)
def test_percentiles_are_within_the_resolution_of_sorted_samples(values_ns):
    """Against the nearest rank of the sorted list the error is at most 0.1 % and half a microsecond."""
    histogram, _ = histogram_of(np.array(values_ns, dtype=np.int64))
    rank = max(int(0.9 * len(values_ns) + 0.5), 1)

    (value_ms,) = values_at_ms(histogram, [90.0])

    exact_ms = sorted(values_ns)[rank - 1] / MS
    assert value_ms == pytest.approx(exact_ms, rel=1.1e-3, abs=0.0011)
