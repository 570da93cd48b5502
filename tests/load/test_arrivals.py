from itertools import islice, pairwise
from random import Random
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.load.arrivals import PROCESSES, offsets_ns


def test_constant_arrivals_are_evenly_spaced_from_the_start():
    offsets = offsets_ns("constant", 4.0, Random(0), 1_000_000_000, 2_000_000_000)

    assert list(offsets) == [1_000_000_000, 1_250_000_000, 1_500_000_000, 1_750_000_000]


@given(
    process=st.sampled_from(PROCESSES),
    rate=st.floats(0.5, 500),
    seed=st.integers(),
    start=st.integers(0, 10**9),
    length=st.integers(0, 10**9),
)
def test_offsets_are_ordered_within_bounds_and_follow_from_the_seed(
    process, rate, seed, start, length
):
    once = list(offsets_ns(process, rate, Random(seed), start, start + length))
    again = list(offsets_ns(process, rate, Random(seed), start, start + length))

    assert once == again == sorted(once)
    assert all(start <= offset < start + length for offset in once)


def test_poisson_intervals_have_the_mean_and_the_spread_of_an_exponential():
    offsets = list(islice(offsets_ns("poisson", 100.0, Random(3), 0, 10**15), 20_000))

    intervals_ms = [(b - a) / 1e6 for a, b in pairwise(offsets)]

    assert mean(intervals_ms) == pytest.approx(10.0, rel=0.03)
    assert stdev(intervals_ms) == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_not_positive_is_refused(rate):
    with pytest.raises(ValueError, match="rate_per_s must be > 0"):
        next(offsets_ns("poisson", rate, Random(0), 0, 10))
