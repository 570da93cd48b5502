"""The stamping backend: where it is installed, what it notes, when it is not used."""

import asyncio

import httpx
import httpx2
import pytest

from phasemeter.core.clock import now_ns
from phasemeter.testing import FakeClock
from phasemeter.transports.stamping import AsyncStampedStream, StampedStream, install, stamps_of


class Wire:
    """A network stream that takes time by turning the clock."""

    def __init__(self, clock):
        self.clock = clock

    def read(self, max_bytes, timeout=None):
        self.clock.advance_ms(5)
        return b"x"

    def write(self, buffer, timeout=None):
        self.clock.advance_ms(1)

    def start_tls(self, ssl_context, server_hostname=None, timeout=None):
        self.clock.advance_ms(7)
        return Wire(self.clock)

    def get_extra_info(self, info):
        return info


class AsyncWire(Wire):
    async def read(self, *args):
        return super().read(*args)

    async def write(self, *args):
        super().write(*args)

    async def start_tls(self, *args):
        return super().start_tls(*args)


MS = 1_000_000


def test_reads_are_stamped_after_and_writes_before_the_call():
    """Connect, write, read; TLS makes a new stream that is connected later."""
    clock = FakeClock()
    plain = StampedStream(Wire(clock), clock.now_ns)
    stream = plain.start_tls(object(), server_hostname="h")
    stream.write(b"q")
    assert stream.connected_ns == 7 * MS
    stream.read(10, timeout=1.0)

    assert (stream.last_write_ns, stream.last_read_ns) == (7 * MS, 13 * MS)
    assert stream.get_extra_info("socket") == "socket"


def test_async_stamps_are_the_same():
    """One clock, same places."""
    clock = FakeClock()

    async def run():
        stream = await AsyncStampedStream(AsyncWire(clock), clock.now_ns).start_tls(object())
        assert stream.connected_ns == 7 * MS
        await AsyncStampedStream(AsyncWire(clock), clock.now_ns).write(b"q")

    asyncio.run(run())
    assert clock.t_ns == 8 * MS


def test_a_second_request_did_not_make_the_connection():
    """A write after a read takes the mark away."""
    clock = FakeClock()
    stream = StampedStream(Wire(clock), clock.now_ns)
    stream.write(b"head")
    stream.write(b"body")
    stream.read(1)
    assert stream.connected_ns == 0

    stream.write(b"next")

    assert stream.connected_ns is None


@pytest.mark.parametrize("family", [httpx, httpx2])
def test_installing_is_idempotent_and_reports_whether_it_could(family):
    """A pool once, a mock transport never."""
    transport = family.HTTPTransport()
    assert install(transport, now_ns, is_async=False)
    once = transport._pool._network_backend
    assert install(transport, now_ns, is_async=False)

    assert transport._pool._network_backend is once
    assert not install(family.MockTransport(lambda request: None), now_ns, is_async=False)


def test_stamps_of_another_clock_or_of_http2_are_not_used():
    """Better a later stamp than one that means something else."""
    clock = FakeClock()
    stream = StampedStream(Wire(clock), clock.now_ns)
    stream.read(1)
    extensions = {"network_stream": stream, "http_version": b"HTTP/1.1"}

    assert stamps_of(extensions, clock.now_ns) is stream
    assert stamps_of(extensions, now_ns) is None
    assert stamps_of({**extensions, "http_version": b"HTTP/2"}, clock.now_ns) is None
    assert stamps_of({"network_stream": object()}, clock.now_ns) is None
    assert stamps_of(None, clock.now_ns) is None
