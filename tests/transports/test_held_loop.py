"""How long bytes may have waited for a loop that the application kept from turning; times in ms."""

import pytest

from phasemeter.transports.held_loop import HeldLoop

MS = 1_000_000


def unread_ms(t_ms, *turns):
    """Turns as (began, now, is_readable)."""
    held = HeldLoop()
    for began_ms, now_ms, is_readable in turns:
        held.turned(round(began_ms * MS), round(now_ms * MS), is_readable=is_readable)
    first, second = held.unread_ns(round(t_ms * MS)), held.unread_ns(round(t_ms * MS))
    assert second == 0  # of one read only
    return first / MS


@pytest.mark.parametrize(
    ("t_ms", "turns", "expected_ms"),
    [
        (10, [], 0),
        (50, [(0, 50, True)], 50),
        (55, [(0, 50, True)], 55),  # they were seen, however late they are read
        (50.5, [(0, 50, False)], 50.5),  # the loop may have taken them before they could be seen
        (51.5, [(0, 50, False)], 0),  # came by themselves
        (80, [(0, 50, False), (50.1, 80, False)], 80),  # one turn between: held up all the time
        (80, [(0, 40, False), (50, 80, True)], 30),  # what had come before was read in between
        (80, [(0, 40, True), (40.5, 80, False)], 80),
    ],
)
def test_bytes_may_have_waited_since_the_loop_turned_last(t_ms, turns, expected_ms):
    assert unread_ms(t_ms, *turns) == pytest.approx(expected_ms)
