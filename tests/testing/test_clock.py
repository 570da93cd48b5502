"""A clock that stands still until it is told to move."""

import pytest

from phasemeter.testing import FakeClock


def test_it_stands_still_until_it_is_moved():
    clock = FakeClock(5)

    assert (clock.now_ns(), clock.now_ns()) == (5, 5)
    clock.advance_ms(1.5)
    assert clock.now_ns() == 1_500_005


def test_time_does_not_run_backwards():
    with pytest.raises(ValueError, match="by_ms must be >= 0, got -1"):
        FakeClock().advance_ms(-1)
