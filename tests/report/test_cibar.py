"""Interval bars."""

import re

from phasemeter.analysis.finding import Factor
from phasemeter.report.cibar import WIDTH_PX, interval_bars


def factor(value, ci95=None):
    return Factor("f", value, ci95, "a", "b")


def test_bars_share_one_scale_and_mark_one():
    """The same mark at 1 in each row; larger is further right; colours tell the side of 1."""
    double, half, same = interval_bars(
        [factor(2.0, (1.5, 3.0)), factor(0.5, (0.4, 0.6)), factor(1.1, (0.9, 1.3))]
    )

    marks = {re.search(r'class="one" x1="([\d.]+)"', bar)[1] for bar in (double, half, same)}
    dots = [float(re.search(r'cx="([\d.]+)"', bar)[1]) for bar in (half, same, double)]
    assert len(marks) == 1
    assert dots == sorted(dots)
    assert all(0 < x < WIDTH_PX for x in dots)
    assert ("above" in double, "below" in half, "unclear" in same) == (True, True, True)


def test_an_unknown_or_zero_factor_has_no_bar():
    """Nothing to draw on a logarithmic scale."""
    assert interval_bars([factor(None), factor(0.0)]) == ["", ""]


def test_a_factor_without_interval_is_a_dot_of_unclear_side():
    """Without an interval no side of 1 is claimed."""
    (bar,) = interval_bars([factor(3.0)])

    assert 'class="ci"' not in bar
    assert "unclear" in bar
