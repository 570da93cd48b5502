"""Reading past the library's `read`: the same bytes, the same timeouts, the same exceptions; only its own streams."""

import socket
import ssl
import struct
import threading

import pytest

from phasemeter.transports.direct_read import direct_read, readable_check


@pytest.fixture
def pair(library, listener):
    stream = library.SyncBackend().connect_tcp(*listener.getsockname(), timeout=5.0)
    peer, _ = listener.accept()
    with peer:
        yield stream, peer
    stream.close()


def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def fault_of(read, *args):
    with pytest.raises(Exception) as caught:  # noqa: PT011  which one is what is asked
        read(*args)
    return type(caught.value), type(caught.value.__cause__), str(caught.value)


def test_it_returns_what_the_library_would(pair):
    """As much as is there, up to what is asked for; nothing once the peer has closed."""
    stream, peer = pair
    read = direct_read(stream)
    peer.sendall(b"abcdef")

    assert read != stream.read
    assert read(4, 5.0) == b"abcd"
    assert read(4, None) == b"ef"
    peer.close()
    assert read(4, 5.0) == b""


def test_each_read_has_its_own_timeout(pair, library):
    """A short one after a long one, and after a write with another: the write sets the socket's, too."""
    stream, peer = pair
    read = direct_read(stream)
    peer.sendall(b"a")
    assert read(1, 5.0) == b"a"
    expected = fault_of(stream.read, 1, 0.01)

    assert expected[0] is library.ReadTimeout
    assert fault_of(read, 1, 0.01) == expected
    stream.write(b"q", timeout=60.0)
    assert fault_of(read, 1, 0.01) == expected
    peer.sendall(b"b")
    assert read(1, 5.0) == b"b"


def test_a_reset_is_the_librarys_read_error(library, listener):
    """Same class, same cause, same words."""
    faults = []
    for how in (lambda stream: stream.read, direct_read):
        stream = library.SyncBackend().connect_tcp(*listener.getsockname(), timeout=5.0)
        reset(listener.accept()[0])
        faults.append(fault_of(how(stream), 1, 5.0))
        stream.close()
        faults.append(fault_of(how(stream), 1, 5.0))  # of one that is closed

    assert faults[:2] == faults[2:]
    assert faults[0][0] is library.ReadError


def test_a_tls_stream_is_read_alike(library, listener, server_tls, client_tls):
    """Its socket is Python's own."""

    def serve():
        raw, _ = listener.accept()
        with server_tls.wrap_socket(raw, server_side=True) as peer:
            peer.sendall(b"secret")
            peer.recv(1)

    peer = threading.Thread(target=serve)
    peer.start()
    plain = library.SyncBackend().connect_tcp(*listener.getsockname(), timeout=5.0)
    stream = plain.start_tls(client_tls, "localhost", 5.0)
    read = direct_read(stream)

    assert isinstance(stream.get_extra_info("socket"), ssl.SSLSocket)
    assert read != stream.read
    assert read(100, 5.0) == b"secret"
    assert fault_of(read, 1, 0.01) == fault_of(stream.read, 1, 0.01)
    stream.write(b"q")
    stream.close()
    peer.join()


def test_streams_that_are_not_quite_the_librarys_are_read_through_their_read(
    pair, library, monkeypatch
):
    """A subclass, a patched object, a patched class: somebody wants to see the reads."""
    stream, _ = pair
    sock = stream.get_extra_info("socket")

    class Logged(type(stream)):
        def read(self, max_bytes, timeout=None):
            return b"logged"

    patched = type(stream)(sock)
    patched.read = lambda max_bytes, timeout=None: b"patched"

    assert direct_read(Logged(sock))(1, None) == b"logged"
    assert direct_read(patched)(1, None) == b"patched"
    monkeypatch.setattr(type(stream), "read", lambda self, max_bytes, timeout=None: b"all")
    assert direct_read(stream)(1, None) == b"all"


def test_waiting_bytes_are_seen_as_the_library_sees_them(pair):
    """None, some, none again, the end."""
    stream, peer = pair
    is_readable = readable_check(stream)
    seen = []

    def look():
        seen.append((bool(is_readable()), stream.get_extra_info("is_readable")))

    look()
    peer.sendall(b"a")
    stream.read(0, 5.0)  # waits for them
    look()
    stream.read(1, 5.0)
    look()
    peer.close()
    stream.read(0, 5.0)
    look()
    assert [both[0] for both in seen[:3]] == [False, True, False]
    assert all(ours == theirs for ours, theirs in seen)


def test_a_stream_without_a_socket_is_asked_itself():
    """A backend of the application's own."""

    class Wire:
        def get_extra_info(self, info):
            return f"{info}?"

        def read(self, max_bytes, timeout=None):
            return b"x"

    wire = Wire()
    assert readable_check(wire)() == "is_readable?"
    assert direct_read(wire) == wire.read
