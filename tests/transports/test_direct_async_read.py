"""Awaiting anyio's streams with one timer for many reads: bytes, timeouts, cancellations, exceptions."""

import asyncio
import gc
import socket
import struct
import weakref
from contextlib import asynccontextmanager

import anyio
import pytest
import uvloop

from phasemeter.core.clock import now_ns
from phasemeter.transports.direct_async_read import ReadDeadline, direct_async_read
from phasemeter.transports.stamping import AsyncStampedStream


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request):
    return request.param


async def connected(library, listener):
    stream = await library.AnyIOBackend().connect_tcp(*listener.getsockname(), timeout=5.0)
    return stream, listener.accept()[0]


@asynccontextmanager
async def opened(library, listener):
    """A stream, what reads it directly, and its peer; all closed on leaving."""
    stream, peer = await connected(library, listener)
    direct = direct_async_read(stream)
    with peer:
        yield stream, direct, peer
        direct.close()
        await stream.aclose()


async def fault_of(read, *args):
    with pytest.raises(Exception) as caught:  # noqa: PT011  which one is what is asked
        await read(*args)
    return type(caught.value), type(caught.value.__cause__)


def test_it_returns_what_the_library_would(run, library, listener):
    """As much as is there, up to what is asked for; nothing once the peer has closed."""

    async def main():
        async with opened(library, listener) as (_, direct, peer):
            peer.sendall(b"abcdef")
            parts = [await direct.read(4, 5.0), await direct.read(4, None)]
            peer.close()
            parts.append(await direct.read(4, 5.0))
            return parts

    assert run(main()) == [b"abcd", b"ef", b""]


def test_each_read_has_its_own_timeout(run, library, listener):
    """A short one while the timer of a long one runs; a long one while that of a short one does."""

    async def main():
        async with opened(library, listener) as (stream, direct, peer):
            expected = await fault_of(stream.read, 1, 0.01)
            assert expected[0] is library.ReadTimeout
            peer.sendall(b"ab")
            assert await direct.read(1, 60.0) == b"a"
            assert await direct.read(1, 0.02) == b"b"
            asyncio.get_running_loop().call_later(0.1, peer.sendall, b"c")
            assert await direct.read(1, 60.0) == b"c"  # the timer of 0.02 s has run out meanwhile
            began_ns = now_ns()
            assert await fault_of(direct.read, 1, 0.05) == expected
            assert now_ns() - began_ns >= 45e6
            assert await fault_of(direct.read, 1, 0) == expected
            assert asyncio.current_task().cancelling() == 0
            peer.sendall(b"d")
            assert await direct.read(1, 5.0) == b"d"

    run(main())


def test_many_reads_have_one_timer(library, listener):
    """And there is none once the connection is closed."""
    set_for_s = []

    class Loop(asyncio.SelectorEventLoop):
        def call_at(self, when, *args, **options):
            set_for_s.append(when - self.time())
            return super().call_at(when, *args, **options)

    async def main():
        stream, peer = await connected(library, listener)
        stamped = AsyncStampedStream(stream, now_ns)
        set_for_s.clear()
        for _ in range(50):
            peer.sendall(b"a")
            assert await stamped.read(1, 600.0) == b"a"
        (timer,) = asyncio.get_running_loop()._scheduled
        await stamped.aclose()
        peer.close()
        return timer

    with asyncio.Runner(loop_factory=Loop) as runner:
        timer = runner.run(main())
    assert [round(seconds) for seconds in set_for_s] == [600]
    assert timer.cancelled()


def test_a_reset_and_a_closed_stream_are_the_librarys_read_errors(run, library, listener):
    """Same class, same cause."""

    async def faults(how):
        stream, peer = await connected(library, listener)
        read = how(stream)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        found = [await fault_of(read, 1, 5.0)]
        await stream.aclose()
        return [*found, await fault_of(read, 1, 5.0)]

    async def main():
        plain = await faults(lambda stream: stream.read)
        return plain, await faults(lambda stream: direct_async_read(stream).read)

    plain, direct = run(main())
    assert direct == plain
    assert plain[0][0] is plain[1][0] is library.ReadError


def test_a_cancellation_is_the_callers(run, library, listener):
    """Also in the turn in which the deadline is due, and what comes later can be read."""

    async def main():
        async with opened(library, listener) as (_, direct, peer):
            for timeout in (None, 60.0):
                task = asyncio.ensure_future(direct.read(1, timeout))
                await asyncio.sleep(0.01)
                task.cancel("enough")
                with pytest.raises(asyncio.CancelledError, match="enough"):
                    await task
            task = asyncio.ensure_future(direct.read(1, 60.0))
            await asyncio.sleep(0.01)
            direct._deadline._due_s = 0.0
            direct._deadline._look()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            peer.sendall(b"x")
            assert await direct.read(1, 5.0) == b"x"

    run(main())


@pytest.mark.parametrize("scope", [asyncio.timeout, anyio.fail_after])
def test_the_timeouts_of_the_application_go_on(run, library, listener, scope):
    """Around a read with a longer timeout, and with a shorter one."""

    async def main():
        async with opened(library, listener) as (_, direct, _):
            with pytest.raises(TimeoutError):
                await within(scope(0.02), direct.read(1, 60.0))
            with pytest.raises(library.ReadTimeout):
                await within(scope(60.0), direct.read(1, 0.02))
            assert asyncio.current_task().cancelling() == 0

    async def within(entered, reading):
        if hasattr(entered, "__aenter__"):
            async with entered:
                return await reading
        with entered:
            return await reading

    run(main())


def test_a_second_reader_is_told_as_the_library_tells_it(library, listener):
    """One read at a time; the first goes on."""

    async def main():
        async with opened(library, listener) as (stream, direct, peer):
            first = asyncio.ensure_future(direct.read(1, 60.0))
            await asyncio.sleep(0.01)
            assert await fault_of(direct.read, 1, 0.01) == await fault_of(stream.read, 1, 0.01)
            peer.sendall(b"x")
            assert await first == b"x"

    asyncio.run(main())


def test_a_tls_stream_is_read_alike(run, library, listener, server_tls, client_tls):
    """It is anyio's, too."""

    async def serve(reader, writer):
        writer.write(b"secret")
        await reader.read(1)
        writer.close()

    async def main():
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_tls) as server:
            host, port = server.sockets[0].getsockname()[:2]
            plain = await library.AnyIOBackend().connect_tcp(host, port, timeout=5.0)
            stream = await plain.start_tls(client_tls, "localhost", 5.0)
            direct = direct_async_read(stream)
            assert await direct.read(100, 5.0) == b"secret"
            assert await fault_of(direct.read, 1, 0.01) == await fault_of(stream.read, 1, 0.01)
            await stream.write(b"q")
            assert await direct.read(1, 5.0) == b""
            direct.close()
            await stream.aclose()

    run(main())


def test_streams_that_are_not_quite_the_librarys_are_read_through_their_read(library, listener):
    """A subclass; a backend of the application's own."""

    async def main():
        stream, peer = await connected(library, listener)

        class Logged(type(stream)):
            async def read(self, max_bytes, timeout=None):
                return b"logged"

        assert direct_async_read(Logged(stream._stream)) is None
        assert await AsyncStampedStream(Logged(stream._stream), now_ns).read(1) == b"logged"
        assert direct_async_read(object()) is None
        await stream.aclose()
        peer.close()

    asyncio.run(main())


def test_a_timer_keeps_no_connection_alive():
    """It knows its deadline weakly, and does nothing once that is gone."""

    async def main():
        deadline = ReadDeadline(asyncio.get_running_loop())
        deadline.set(0.01, asyncio.current_task())
        with deadline:
            pass
        gone = weakref.ref(deadline)
        del deadline
        gc.collect()
        assert gone() is None
        await asyncio.sleep(0.05)
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(main())
