"""Numbers as text, the same in the terminal and on the page. Unknown is a dash."""

from __future__ import annotations

from phasemeter.analysis.finding import Factor

UNKNOWN = "\N{EN DASH}"


def ms(value: float | None) -> str:
    """Return milliseconds with one decimal, two below 10 ms."""
    if value is None:
        return UNKNOWN
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"


def count(value: int | None) -> str:
    """Return a whole number with thousands marks."""
    return UNKNOWN if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """Return a rate with one decimal, two below 10."""
    return ms(value)


def ratio(value: float | None) -> str:
    """Return a ratio such as 12.3x, with about three digits."""
    if value is None:
        return UNKNOWN
    return f"{value:.2f}x" if abs(value) < 10 else f"{value:,.1f}x"


def interval(factor: Factor) -> str:
    """Return the 95 % interval of a factor."""
    if factor.ci95 is None:
        return UNKNOWN
    lo, hi = factor.ci95
    return f"{ratio(lo)} to {ratio(hi)}"


def effect(factor: Factor) -> str:
    """Say whether a factor's interval lies above 1, below 1, or shows nothing."""
    if factor.ci95 is None:
        return UNKNOWN
    lo, hi = factor.ci95
    if lo <= 1 <= hi:
        return "not shown"
    return "higher" if lo > 1 else "lower"
