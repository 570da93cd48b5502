"""TLS and plain connections against real peers."""

import socket
import ssl
import threading

import pytest

from phasemeter.core.clock import now_ns
from phasemeter.load.connection import Address, Connection, resolve


def pump(connection: Connection, until, seconds: float = 10.0) -> bytes:
    """Drive a connection by hand until a condition holds; what it received."""
    received = b""
    deadline_ns = now_ns() + round(seconds * 1e9)
    while not until(received):
        assert now_ns() < deadline_ns, f"nothing more came after {received!r}"
        if connection.wants_write:
            connection.on_writable()
        got = (
            connection.receive() if connection.connected_ns or not connection.wants_write else None
        )
        if got is not None:
            received += got[1]
            if not got[1]:
                return received
    return received


def test_an_exchange_over_tls_brings_the_bytes_and_stamps(certificate):
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    client_side = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    payload = b"x" * 100_000

    def serve() -> None:
        plain, _ = listener.accept()
        with server_side.wrap_socket(plain, server_side=True) as peer:
            assert peer.recv(5) == b"hello"
            peer.sendall(payload)
            assert peer.recv(5) == b""  # the client has closed

    thread = threading.Thread(target=serve)
    thread.start()
    connection = Connection(Address(socket.AF_INET, ("127.0.0.1", port), "localhost"), client_side)
    begun_ns = now_ns()
    connection.begin()
    pump(connection, lambda _: connection.connected_ns is not None)
    connection.write(b"hello")
    received = pump(connection, lambda data: len(data) >= len(payload))
    connection.end()
    connection.close()
    thread.join(10)
    listener.close()

    assert received == payload
    assert begun_ns < connection.connected_ns <= now_ns()
    assert connection.clock_stepped is False


def test_a_peer_with_an_untrusted_certificate_is_refused(certificate):
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        plain, _ = listener.accept()
        with pytest.raises(OSError):  # noqa: PT011
            server_side.wrap_socket(plain, server_side=True)
        plain.close()

    thread = threading.Thread(target=serve)
    thread.start()
    connection = Connection(
        Address(socket.AF_INET, listener.getsockname(), "localhost"),
        ssl.create_default_context(),
    )
    connection.begin()
    with pytest.raises(ssl.SSLError):
        pump(connection, lambda _: connection.connected_ns is not None)
    connection.close()
    thread.join(10)
    listener.close()


@pytest.mark.parametrize("stamps", ["auto", "recv"])
def test_stamps_lie_between_the_send_and_the_read(stamps):
    listener = socket.create_server(("127.0.0.1", 0))
    address = resolve("127.0.0.1", listener.getsockname()[1], tls=False)
    connection = Connection(address, None, stamps)
    peer, _ = listener.accept()
    connection.begin()
    pump(connection, lambda _: connection.connected_ns is not None)
    for _ in range(20):
        before_ns = now_ns()
        peer.sendall(b"token")
        got = None
        while got is None:
            got = connection.receive()
        after_ns = now_ns()
        assert before_ns - 200_000 <= got[0] <= after_ns + 200_000
    connection.close()
    peer.close()
    listener.close()
