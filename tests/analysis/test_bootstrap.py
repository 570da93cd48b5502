"""Intervals of ratios: what they must cover, and how wide they must be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.analysis.bootstrap import Quantile, ratio_interval, resample

MEDIAN = Quantile(0.5)


def nearest_rank(samples):
    return Quantile(0.9)(samples)


def mean(samples):
    return float(samples.mean())


def noisy_blocks(seed, *, blocks=40, size=30, scale=1.0, shared=0.0):
    """Blocks of samples around 10; `shared` is the spread that a block's samples have in common."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, shared, blocks) if shared else np.zeros(blocks)
    return [scale * (10 + offset + rng.normal(0, 1, size)) for offset in common]


def test_the_value_is_the_ratio_of_the_pooled_statistics():
    """Median of 2 4 6 over median of 1 2 3 is 2."""
    value, _, _ = ratio_interval(
        [np.array([2, 4]), np.array([6])], [np.array([1]), np.array([2, 3])], MEDIAN
    )

    assert value == 2.0


@pytest.mark.parametrize("statistic", [MEDIAN, Quantile(0.99), mean])
def test_equal_groups_cover_one(statistic):
    """Two samples of one distribution show no difference."""
    _, lo, hi = ratio_interval(noisy_blocks(1), noisy_blocks(2), statistic)

    assert lo < 1 < hi


@pytest.mark.parametrize("statistic", [MEDIAN, Quantile(0.99), mean])
def test_doubled_values_cover_two_and_exclude_one(statistic):
    """A factor of two is found."""
    _, lo, hi = ratio_interval(noisy_blocks(1, scale=2), noisy_blocks(2), statistic)

    assert 1 < lo < 2 < hi


def test_correlated_blocks_widen_the_interval():
    """Samples of one stream hang together: resampling them singly would be too sure."""
    a, b = noisy_blocks(1, shared=2.0), noisy_blocks(2, shared=2.0)

    _, lo, hi = ratio_interval(a, b, mean)
    _, single_lo, single_hi = ratio_interval(
        list(np.concatenate(a).reshape(-1, 1)), list(np.concatenate(b).reshape(-1, 1)), mean
    )

    assert hi - lo > 2 * (single_hi - single_lo)


def test_the_fast_quantile_draws_what_the_plain_one_draws():
    """Weights over sorted samples are the same resampling as joining drawn blocks."""
    a, b = noisy_blocks(3, blocks=12, size=9), noisy_blocks(4, blocks=7, size=20)

    fast = ratio_interval(a, b, Quantile(0.9), resamples=200, seed=5)
    plain = ratio_interval(a, b, nearest_rank, resamples=200, seed=5)

    assert fast == plain


def test_same_seed_same_interval():
    """A report can be made again."""
    a, b = noisy_blocks(1), noisy_blocks(2)

    assert ratio_interval(a, b, MEDIAN, seed=9) == ratio_interval(a, b, MEDIAN, seed=9)
    assert ratio_interval(a, b, MEDIAN, seed=9) != ratio_interval(a, b, MEDIAN, seed=10)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([], [np.array([1.0])]),
        ([np.array([1.0])], []),
        ([np.array([])], [np.array([1.0])]),
        ([np.array([1.0])], [np.array([0.0]), np.array([0.0])]),
    ],
)
def test_an_empty_side_or_a_zero_divisor_has_no_ratio(a, b):
    """Unknown is None."""
    assert ratio_interval(a, b, MEDIAN) == (None, None, None)


def test_one_block_gives_a_ratio_without_an_interval():
    """A single block says nothing about the spread between blocks."""
    assert ratio_interval([np.array([4.0, 4.0])], [np.array([2.0]), np.array([2.0])], MEDIAN) == (
        2.0,
        None,
        None,
    )


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=50), st.floats(0.01, 1.0, exclude_min=True)
)
def test_quantile_is_the_nearest_rank(values, q):
    """At least a share q of the samples is not above it, and it is a sample."""
    result = Quantile(q)(np.array(values, dtype=np.float64))

    assert result in values
    assert sum(value <= result for value in values) >= q * len(values) - 1e-9


def test_pairs_cancel_what_both_sides_have_in_common():
    """Requests whose times differ a hundredfold, each doubled on the other side: exactly 2."""
    rng = np.random.default_rng(1)
    base = [np.array([value]) for value in rng.integers(1_000, 100_000, size=30)]
    doubled = [2 * block for block in base]

    paired = ratio_interval(doubled, base, np.mean, paired=True)
    unpaired = ratio_interval(doubled, base, np.mean)

    assert paired == (2.0, 2.0, 2.0)
    assert unpaired.value == 2.0
    assert unpaired.lo < 1.8 < 2.2 < unpaired.hi


@pytest.mark.parametrize("statistic", [Quantile(0.5), np.mean])
def test_pairs_may_have_an_empty_side(statistic):
    """A second in which one side saw no gap keeps its place; a draw of only such seconds counts not."""
    empty = np.empty(0)
    fours, twos = [np.array([4.0])] * 5, [np.array([2.0])] * 5

    ratio = ratio_interval(
        [*fours, empty, empty], [*twos, np.array([2.0]), empty], statistic, paired=True
    )

    assert ratio == (2.0, 2.0, 2.0)


def test_pairs_must_be_as_many_on_each_side():
    """Else it is not known which goes with which."""
    with pytest.raises(ValueError, match="as many"):
        ratio_interval([np.ones(1)], [np.ones(1)] * 2, np.mean, paired=True)


@pytest.mark.parametrize("paired", [True, False])
def test_too_few_blocks_give_a_ratio_without_an_interval(paired):
    """Four pairs: every draw is much like the others, and the interval would be far too narrow."""
    ratio = ratio_interval([np.array([6.0])] * 4, [np.array([2.0])] * 4, np.mean, paired=paired)

    assert ratio == (3.0, None, None)


def test_statistics_resampled_once_compare_like_the_ratio_of_both_sides():
    rng = np.random.default_rng(4)
    a = [rng.exponential(2.0, 40) for _ in range(30)]
    b = [rng.exponential(1.0, 40) for _ in range(30)]
    median, mean = resample(a, [0.5, None], seed=1)
    against, _ = resample(b, [0.5, None], seed=2)

    ratio, direct = median.ratio(against), ratio_interval(a, b, Quantile(0.5))

    assert ratio.value == direct.value
    assert ratio.lo == pytest.approx(direct.lo, rel=0.05)
    assert ratio.hi == pytest.approx(direct.hi, rel=0.05)
    lo, hi = mean.interval()
    assert lo < 2 < hi
    assert mean.value == pytest.approx(np.concatenate(a).mean())


def test_a_resampled_statistic_without_enough_blocks_has_no_interval():
    one, none = resample([np.arange(9.0)], [0.5], seed=1), resample([np.empty(0)], [0.5], seed=1)

    assert one[0].value == 4
    assert one[0].interval() is None
    assert one[0].ratio(one[0]) == (1, None, None)
    assert none[0].value is None
    assert one[0].ratio(none[0]) == (None, None, None)
