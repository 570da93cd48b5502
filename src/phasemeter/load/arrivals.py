"""Arrival processes: absolute start offsets, a pure function of the seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal

from phasemeter.core.clock import NS_PER_S

ArrivalProcess = Literal["poisson", "constant"]
PROCESSES: tuple[ArrivalProcess, ...] = ("poisson", "constant")


def offsets_ns(
    process: ArrivalProcess, rate_per_s: float, rng: Random, start_ns: int, stop_ns: int
) -> Iterator[int]:
    """Yield start offsets in ns, non-decreasing, from `start_ns` on and below `stop_ns`.

    Args:
        process: `poisson` draws independent exponential intervals, `constant` keeps them equal.
        rate_per_s: Mean arrivals per second.
        rng: Source of randomness; the same state gives the same offsets.
        start_ns: Earliest offset.
        stop_ns: Bound of the offsets.

    Raises:
        ValueError: If the rate is not positive.
    """
    if not rate_per_s > 0:
        msg = f"rate_per_s must be > 0, got {rate_per_s!r}"
        raise ValueError(msg)
    interval_s = 1 / rate_per_s
    t_s = 0.0
    while True:
        if process == "poisson":
            t_s += rng.expovariate(rate_per_s)
        offset_ns = start_ns + round(t_s * NS_PER_S)
        if offset_ns >= stop_ns:
            return
        yield offset_ns
        if process == "constant":
            t_s += interval_s
