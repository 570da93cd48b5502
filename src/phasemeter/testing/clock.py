"""A clock that stands still until it is told to move."""

from __future__ import annotations


class FakeClock:
    """A `Clock` for tests.

    Attributes:
        t_ns: Current time in ns.
    """

    def __init__(self, t_ns: int = 0) -> None:
        self.t_ns = t_ns

    def now_ns(self) -> int:
        """Return the current time in ns."""
        return self.t_ns

    def advance_ms(self, by_ms: float) -> None:
        """Move the time forward.

        Raises:
            ValueError: For a negative amount; time does not run backwards.
        """
        if by_ms < 0:
            msg = f"by_ms must be >= 0, got {by_ms}"
            raise ValueError(msg)
        self.t_ns += round(by_ms * 1_000_000)
