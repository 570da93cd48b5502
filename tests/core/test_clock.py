"""One clock, and one anchor between it and wall time."""

from phasemeter.core.clock import NS_PER_S, PROCESS_ANCHOR, SystemClock, WallAnchor, now_ns


def test_the_clock_does_not_run_backwards():
    times_ns = [now_ns() for _ in range(100)] + [SystemClock().now_ns()]

    assert times_ns == sorted(times_ns)


def test_an_anchor_turns_monotonic_into_epoch_time():
    anchor = WallAnchor(monotonic_ns=100, unix_ns=5_000)

    assert anchor.unix_ns_at(130) == 5_030
    assert anchor.unix_ns_at(40) == 4_940


def test_two_anchors_of_one_process_agree():
    later = WallAnchor.take()

    assert abs(later.unix_ns - PROCESS_ANCHOR.unix_ns_at(later.monotonic_ns)) < NS_PER_S
