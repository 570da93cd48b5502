import numpy as np
import pytest

from phasemeter.analysis.bootstrapped import Bootstrapped, bootstrapped_rate, derived


def test_a_rate_is_all_work_over_all_time():
    """Blocks of unequal length count by their length: 30 in 3 s, not the mean of 20/s and 5/s."""
    rate = bootstrapped_rate([(20, 1.0), (10, 2.0)], seed=1)

    assert rate.value == 10
    assert rate.ci95 is None  # two blocks are too few to draw from


def test_no_time_is_no_rate():
    assert bootstrapped_rate([], seed=1) is None


def test_the_interval_covers_the_true_rate_about_as_often_as_it_says():
    """Poisson counts of mean 20 in 40 blocks; 200 simulated runs."""
    rng = np.random.default_rng(5)
    covered = 0
    for run in range(200):
        blocks = [(float(count), 0.5) for count in rng.poisson(20, size=40)]
        lo, hi = bootstrapped_rate(blocks, seed=run).ci95
        covered += lo <= 40 <= hi
    assert 0.88 <= covered / 200 <= 1.0


def test_what_is_derived_keeps_the_draws_of_its_arguments_together():
    """A rate over itself is 1 in every draw."""
    blocks = [(float(work), 1.0) for work in range(1, 20)]
    rate = bootstrapped_rate(blocks, seed=1)

    same = derived(lambda a, b: a / b, rate, rate)
    apart = derived(lambda a, b: a / b, rate, bootstrapped_rate(blocks, seed=2))

    assert same.ci95 == (1.0, 1.0)
    assert apart.value == 1.0
    assert apart.ci95[0] < 0.95
    assert apart.ci95[1] > 1.05
    assert derived(lambda a: 2 * a, Bootstrapped(3.0)).value == 6.0
    assert derived(lambda a, b: a + b, rate, Bootstrapped(3.0)).ci95 is None
    assert same.to_json() == {"value": pytest.approx(1.0), "ci95": [1.0, 1.0]}
