"""Receive stamps: on the clock, between send and read, and distrusted when the wall clock is set."""

import socket
import sys

import pytest

from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.testing import FakeClock
from phasemeter.transports import arrivals
from phasemeter.transports.arrivals import Arrivals

linux = pytest.mark.skipif(sys.platform != "linux", reason="kernel receive stamps are Linux's")


@pytest.fixture(scope="module")
def stamping():
    holder = arrivals.hold_stamping()
    yield
    if holder is not None:
        holder.close()


@pytest.fixture
def pair(stamping):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        with near, far:
            yield near, far


@linux
def test_a_kernel_stamp_is_the_arrival_however_late_the_read(pair):
    near, far = pair
    reader = Arrivals(near)
    reader.begin()
    before_ns = now_ns()
    far.sendall(b"token")
    sent_ns = now_ns()
    while now_ns() < sent_ns + 30_000_000:
        pass
    t_ns, data = reader.receive(100)
    reader.end()

    assert (reader.source, data) == ("kernel", b"token")
    assert before_ns - 200_000 <= t_ns <= sent_ns + 5_000_000
    assert reader.read_lag_ns >= 20_000_000
    assert not reader.clock_stepped


@linux
def test_a_wall_clock_that_was_set_is_noticed(pair, monkeypatch):
    """In the stamp itself, and at the end where no stamp told; the read's time is used instead."""
    near, far = pair
    reader = Arrivals(near)
    offset_ns = arrivals.realtime_offset_ns()
    monkeypatch.setattr(arrivals, "realtime_offset_ns", lambda: offset_ns + NS_PER_S)
    reader.begin()
    far.sendall(b"token")
    before_ns = now_ns()
    t_ns, _ = reader.receive(100)

    assert reader.clock_stepped
    assert before_ns <= t_ns <= now_ns()

    reader.begin()
    assert not reader.clock_stepped
    monkeypatch.setattr(arrivals, "realtime_offset_ns", lambda: offset_ns)
    reader.end()
    assert reader.clock_stepped


def test_another_clock_and_other_sockets_are_stamped_at_the_read(pair):
    """The kernel knows one clock, and stamps no bytes of Unix sockets."""
    clock = FakeClock()
    near, far = pair
    reader = Arrivals(near, clock.now_ns)
    far.sendall(b"x")
    clock.advance_ms(3)
    assert (reader.source, reader.receive(1)) == ("recv", (3_000_000, b"x"))
    assert reader.read_lag_ns is None

    left, right = socket.socketpair()
    with left, right:
        reader = Arrivals(left)
        right.sendall(b"y")
        before_ns = now_ns()
        t_ns, data = reader.receive(1)
    assert (reader.source, data) == ("recv", b"y")
    assert before_ns <= t_ns <= now_ns()


def test_the_end_and_faults_come_through(pair):
    near, far = pair
    near.settimeout(0)
    reader = Arrivals(near)
    with pytest.raises(BlockingIOError):
        reader.receive(1)
    far.close()
    near.settimeout(5)
    assert reader.receive(1)[1] == b""


@linux
def test_bytes_without_a_stamp_are_not_passed_off_as_stamped(pair):
    """The kernel begins to stamp a moment after it was first asked to; one such read tells on all."""
    near, far = pair
    reader = Arrivals(near)
    reader.begin()
    near.setsockopt(socket.SOL_SOCKET, arrivals._SO_TIMESTAMPNS, 0)
    far.sendall(b"early")
    before_ns = now_ns()
    t_ns, _ = reader.receive(100)
    assert before_ns <= t_ns <= now_ns()
    assert (reader.source, reader.read_lag_ns) == ("recv", None)

    near.setsockopt(socket.SOL_SOCKET, arrivals._SO_TIMESTAMPNS, 1)
    reader.begin()
    far.sendall(b"stamped")
    reader.receive(100)
    assert reader.source == "kernel"


@linux
def test_bytes_that_came_before_the_exchange_began_are_no_sign_of_a_set_clock(pair):
    """TLS session tickets come before the first request is sent."""
    near, far = pair
    reader = Arrivals(near)
    far.sendall(b"ticket")
    before_ns = now_ns()
    while now_ns() < before_ns + 20_000_000:
        pass
    reader.begin()
    t_ns, _ = reader.receive(100)
    reader.end()

    assert not reader.clock_stepped
    assert t_ns < before_ns + 10_000_000
