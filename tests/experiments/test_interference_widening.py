"""Intervals from few or correlated blocks of time are widened; others are left as they are."""

import numpy as np
import pytest

from phasemeter.analysis.bootstrap import RatioInterval
from phasemeter.experiments.widening import widened

RATIO = RatioInterval(2.0, 1.6, 2.5)


def side(means):
    return {(1, 0, number): np.array([mean]) for number, mean in enumerate(means)}


def test_blocks_without_order_are_widened_by_the_t_quantile_only():
    blocks = {(1, 0, f"r{number}"): np.array([number]) for number in range(10)}

    wide = widened(RATIO, blocks, blocks)

    # t(9) = 2.262: 2.262 / 1.960 x sqrt(10 / 9) = 1.2167 on the logarithmic scale
    assert wide.value == 2.0
    assert wide.lo == pytest.approx(2 * (0.8**1.2167), rel=1e-3)
    assert wide.hi == pytest.approx(2 * (1.25**1.2167), rel=1e-3)


def test_many_independent_blocks_change_little():
    rng = np.random.default_rng(1)
    blocks = side(rng.normal(10, 1, 2_000))

    wide = widened(RATIO, blocks, blocks)

    assert wide.lo == pytest.approx(1.6, rel=0.03)
    assert wide.hi == pytest.approx(2.5, rel=0.03)


def test_blocks_that_hang_together_widen_up_to_a_limit():
    drifting = side(np.repeat([9.0, 11.0, 10.0, 12.0], 500))
    rng = np.random.default_rng(1)

    wide = widened(RATIO, side(rng.normal(10, 1, 2_000)), drifting)

    assert wide.lo == pytest.approx(2 * 0.8**2, rel=0.01)  # (1 + 0.6) / (1 - 0.6) = 2 squared


def test_what_has_no_interval_gets_none():
    none = RatioInterval(2.0, None, None)

    assert widened(none, side([1.0] * 8)) is none
    assert widened(RatioInterval(0.5, 0.0, 1.0), side([1.0] * 8)) == RatioInterval(0.5, 0.0, 1.0)


def test_runs_are_not_taken_for_neighbours():
    """Blocks that alternate within each run: the jump from one run to the next does not count."""
    blocks = {
        (repeat, 0, number): np.array([10.0 * repeat + number % 2])
        for repeat in (1, 2, 3)
        for number in range(50)
    }

    wide = widened(RATIO, blocks)

    assert wide.lo == pytest.approx(1.6, rel=0.02)
