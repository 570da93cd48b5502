"""For users' own tests: a clock that can be turned, recorded streams and what to expect of them."""

from phasemeter.testing.clock import FakeClock
from phasemeter.testing.recorded import RecordedCase, differences, summary_of

__all__ = ["FakeClock", "RecordedCase", "differences", "summary_of"]
