"""The one clock: integer nanoseconds, monotonic, with one anchor to wall time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000


class Clock(Protocol):
    """Something that tells the time; `phasemeter.testing.FakeClock` is the other implementation."""

    def now_ns(self) -> int:
        """Return monotonic time in integer nanoseconds."""
        ...


class SystemClock:
    """The system's monotonic clock (CLOCK_MONOTONIC on Linux: one origin for all processes)."""

    now_ns = staticmethod(time.monotonic_ns)


now_ns = time.monotonic_ns


def realtime_offset_ns() -> int:
    """Return CLOCK_REALTIME minus the monotonic clock, in ns, from the tightest of three reads.

    Kernel receive stamps are CLOCK_REALTIME. A changed offset between the start and the end of a
    response means that the wall clock was stepped or slewed in between.
    """
    best_width_ns = None
    offset_ns = 0
    for _ in range(3):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        width_ns = after_ns - before_ns
        if best_width_ns is None or width_ns < best_width_ns:
            best_width_ns = width_ns
            offset_ns = wall_ns - (before_ns + after_ns) // 2
    return offset_ns


@dataclass(frozen=True, slots=True)
class WallAnchor:
    """One pair of simultaneous readings; the only way from monotonic to epoch time.

    Attributes:
        monotonic_ns: Reading of the monotonic clock.
        unix_ns: Reading of the wall clock (ns since the epoch) at the same instant.
    """

    monotonic_ns: int
    unix_ns: int

    @classmethod
    def take(cls) -> WallAnchor:
        """Read both clocks now."""
        monotonic_ns = time.monotonic_ns()
        return cls(monotonic_ns=monotonic_ns, unix_ns=monotonic_ns + realtime_offset_ns())

    def monotonic_ns_at(self, unix_ns: int) -> int:
        """Return the monotonic instant of an epoch time in ns."""
        return self.monotonic_ns + (unix_ns - self.unix_ns)

    def unix_ns_at(self, monotonic_ns: int) -> int:
        """Return the epoch time in ns of a monotonic instant."""
        return self.unix_ns + (monotonic_ns - self.monotonic_ns)


PROCESS_ANCHOR = WallAnchor.take()
