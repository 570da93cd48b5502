"""The server's listening socket tells when a request had arrived, not when it was read."""

import socket
import sys
import time

import pytest

from phasemeter.lab.listener import StampingListener
from phasemeter.transports.arrivals import hold_stamping


@pytest.fixture
def pair():
    """(listener, its accepted connection, the client's socket)."""
    stamping = hold_stamping()  # the kernel begins a while after the first socket has asked
    listener = StampingListener(socket.AF_INET)
    listener.bind(("127.0.0.1", 0))
    listener.listen(5)
    client = socket.create_connection(listener.getsockname())
    accepted, address = listener.accept()
    assert address == client.getsockname()
    yield listener, accepted, client
    for one in (client, accepted, listener, stamping):
        if one is not None:
            one.close()


@pytest.mark.skipif(sys.platform != "linux", reason="receive stamps are Linux's")
def test_bytes_that_waited_carry_the_time_of_their_arrival(pair):
    listener, accepted, client = pair
    before_ns = time.monotonic_ns()
    client.sendall(b"request")
    sent_ns = time.monotonic_ns()
    time.sleep(0.1)  # the engine is busy computing

    assert accepted.recv(100) == b"request"

    arrived_ns = listener.arrivals_ns[client.getsockname()]
    assert before_ns - 1_000_000 <= arrived_ns <= sent_ns + 50_000_000


def test_a_closed_connection_is_forgotten(pair):
    listener, accepted, client = pair
    client.sendall(b"x")
    accepted.recv(1)
    assert client.getsockname() in listener.arrivals_ns

    accepted.close()

    assert listener.arrivals_ns == {}
