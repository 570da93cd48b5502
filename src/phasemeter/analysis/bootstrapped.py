"""A rate with what is needed to carry its uncertainty through arithmetic: bootstrap draws.

Draws of a rate come from whole blocks (see `bootstrap`), each with its work and its time. A function of
several rates is worked out draw by draw, so its interval needs no formula of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from phasemeter.analysis.bootstrap import MIN_BLOCKS, interval_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Draws = npt.NDArray[np.float64]

RESAMPLES = 2000


def _no_draws() -> Draws:
    return np.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class Bootstrapped:
    """A figure and draws of it.

    Attributes:
        value: The figure.
        draws: `RESAMPLES` draws; empty where there is no interval.
    """

    value: float
    draws: Draws = field(default_factory=_no_draws, repr=False)

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % interval, None where there is none."""
        return interval_of(self.draws)

    def to_json(self) -> dict[str, object]:
        """Return value and interval."""
        ci95 = self.ci95
        return {"value": self.value, "ci95": None if ci95 is None else list(ci95)}


def bootstrapped_rate(blocks: Sequence[tuple[float, float]], *, seed: int) -> Bootstrapped | None:
    """Return work per second from (work, seconds) blocks.

    The interval is that of a percentile bootstrap over whole blocks; None with fewer than `MIN_BLOCKS`
    of them.

    Args:
        blocks: Work done and time taken, block by block.
        seed: Seed of the draws; give estimates that do not belong together different ones.

    Returns:
        The rate; None where no time passed.
    """
    work = np.array([one for one, _ in blocks], dtype=np.float64)
    seconds = np.array([one for _, one in blocks], dtype=np.float64)
    if seconds.sum() <= 0:
        return None
    value = float(work.sum() / seconds.sum())
    if len(blocks) < MIN_BLOCKS:
        return Bootstrapped(value)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(blocks), size=(RESAMPLES, len(blocks)))
    return Bootstrapped(value, work[drawn].sum(axis=1) / seconds[drawn].sum(axis=1))


def derived(function: Callable[..., Draws], *estimates: Bootstrapped) -> Bootstrapped:
    """Return a function of estimates, worked out on the values and on each draw.

    Args:
        function: Takes arrays, element by element.
        estimates: Its arguments.
    """
    value = float(function(*(np.float64(one.value) for one in estimates)))
    if not all(one.draws.size for one in estimates):
        return Bootstrapped(value)
    return Bootstrapped(value, function(*(one.draws for one in estimates)))
