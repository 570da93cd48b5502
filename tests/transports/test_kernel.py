"""Clients of http_client(): kernel stamps over every way to a server, the family's own exceptions, no leaks."""

import asyncio
import errno
import gc
import os
import socket
import ssl
import sys
import threading
import time
import warnings
import weakref
from itertools import pairwise
from statistics import median

import httpx
import httpx2
import openai
import pytest
import trio
import uvloop

import phasemeter
from phasemeter.core.timeline import Outcome
from phasemeter.testing import FakeClock, ScriptedRead, ScriptedReply, ScriptedServer, chat_events
from phasemeter.transports.arrivals import HAS_KERNEL_STAMPS
from tests.load.relay import Relay

TOKENS = 25
EVENTS = chat_events(first_ms=60, gap_ms=20, kinds=("content",) * TOKENS)
SHORT = ScriptedReply.of_events(chat_events(first_ms=5, gap_ms=2, kinds=("content",) * 4))
MESSAGES = [{"role": "user", "content": "hi"}]
BODY = {"model": "m", "stream": True}
PATH = "/v1/chat/completions"
KERNEL = "kernel" if HAS_KERNEL_STAMPS else "recv"

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def timelines():
    return []


@pytest.fixture
def meter(timelines):
    return phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)])


@pytest.fixture(params=["httpx", "httpx2"])
def family(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def is_async(request):
    return request.param


@pytest.fixture(params=["plain", "tls"])
def secure(request):
    return request.param == "tls"


def exchange(url, *, is_async, count=1, run=asyncio.run, pause_s=0.0, body=BODY, **options):
    """POST so often on one client and return the bodies; what it raises is raised."""
    client = phasemeter.http_client(is_async=is_async, **options)
    bodies = []
    if not is_async:
        with client:
            for _ in range(count):
                with client.stream("POST", url + PATH, json=body) as response:
                    parts = []
                    for part in response.iter_bytes():
                        parts.append(part)
                        time.sleep(pause_s)
                    bodies.append(b"".join(parts))
        return bodies

    async def main():
        async with client:
            for _ in range(count):
                async with client.stream("POST", url + PATH, json=body) as response:
                    parts = []
                    async for part in response.aiter_bytes():
                        parts.append(part)
                        if pause_s:
                            await asyncio.sleep(pause_s)
                    bodies.append(b"".join(parts))

    run(main())
    return bodies


def sent(reply):
    return b"".join(chunk for read in reply.reads for chunk in read.chunks)


def open_files():
    gc.collect()
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0


def late_ms(timeline, served):
    sent_ns = served.sent_ns[1 : 1 + len(timeline.events)]
    return [(event.t_ns - at) / 1e6 for event, at in zip(timeline.events, sent_ns, strict=True)]


def test_bytes_and_reuse_are_those_of_the_plain_client(
    family, is_async, secure, meter, timelines, server_tls, client_tls
):
    """Three exchanges on one connection, all stamped by the kernel; nothing stays open."""
    before = open_files()
    with ScriptedServer(SHORT, tls=server_tls if secure else None) as server:
        bodies = exchange(
            server.url, is_async=is_async, count=3, family=family, meter=meter, verify=client_tls
        )
        connections = [served.connection for served in server.served]

    assert bodies == [sent(SHORT)] * 3
    assert connections == [0, 0, 0]
    assert [timeline.outcome for timeline in timelines] == [Outcome.OK] * 3
    assert [timeline.stamp_source for timeline in timelines] == [KERNEL] * 3
    assert not any(timeline.clock_stepped for timeline in timelines)
    assert [timeline.connected_ns is None for timeline in timelines] == [False, True, True]
    for timeline, served in zip(timelines, server.served, strict=True):
        assert -200 < median(late_ms(timeline, served)) < 200
    assert open_files() <= before


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_async_consumer_that_sleeps_does_not_move_the_arrivals(
    run, secure, meter, timelines, server_tls, client_tls
):
    reply = ScriptedReply.of_events(EVENTS)
    with ScriptedServer(reply, tls=server_tls if secure else None) as server:
        bodies = exchange(
            server.url, is_async=True, run=run, pause_s=0.05, meter=meter, verify=client_tls
        )

    (timeline,) = timelines
    late = sorted(late_ms(timeline, server.served[0]))
    assert bodies == [sent(reply)]
    assert timeline.stamp_source == KERNEL
    assert late[len(late) // 2] < 30
    assert late[len(late) * 9 // 10] < 150
    assert median(gap_ns for gap_ns, _ in timeline.gaps()) < 35e6


def test_a_blocking_consumer_that_sleeps_finds_no_gap_of_its_own(
    secure, meter, timelines, server_tls, client_tls
):
    """What piled up is coalesced; the read it came in is marked, so that no gap is the consumer's."""
    reply = ScriptedReply.of_events(EVENTS)
    with ScriptedServer(reply, tls=server_tls if secure else None) as server:
        exchange(server.url, is_async=False, pause_s=0.05, meter=meter, verify=client_tls)

    (timeline,) = timelines
    assert timeline.coalesced_events >= TOKENS // 3
    assert timeline.consumer_limited_gaps >= 1
    sent_ns = server.served[0].sent_ns
    longest_ns = max(later - earlier for earlier, later in pairwise(sent_ns))
    assert all(gap_ns < longest_ns + 25e6 for gap_ns in timeline.gaps_ns())


def test_an_openai_client_over_it_is_timed_once(is_async, meter, timelines):
    """wrap() has nothing to add."""

    async def chat(client):
        async with client:
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            return [chunk async for chunk in stream]

    with ScriptedServer(SHORT) as server:
        http = phasemeter.http_client(is_async=is_async, meter=meter)
        if is_async:
            client = openai.AsyncOpenAI(base_url=server.url, api_key="k", http_client=http)
            assert meter.wrap(client) is client
            asyncio.run(chat(client))
        else:
            with openai.OpenAI(base_url=server.url, api_key="k", http_client=http) as client:
                assert meter.wrap(client) is client
                list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))

    (timeline,) = timelines
    assert (timeline.outcome, timeline.stamp_source) == (Outcome.OK, KERNEL)


def test_an_https_proxy_tunnels_tls_in_tls(is_async, meter, timelines, server_tls, certificate):
    """CONNECT through a proxy that is itself reached by TLS; two sessions, one in the other."""
    trust = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    listener = socket.create_server(("127.0.0.1", 0))
    with (
        ScriptedServer(SHORT, tls=server_tls) as server,
        Relay(listener, int(server.url.rpartition(":")[2]), tls=server_tls, proxy="proxy") as relay,
    ):
        proxy = httpx2.Proxy(f"https://localhost:{relay.port}", ssl_context=trust)
        bodies = exchange(
            server.url, is_async=is_async, count=2, meter=meter, proxy=proxy, verify=trust
        )

    assert bodies == [sent(SHORT)] * 2
    assert relay.heads[0].startswith(b"CONNECT ")
    assert [timeline.stamp_source for timeline in timelines] == [KERNEL] * 2


def test_a_plain_proxy_tunnels_or_forwards(
    is_async, secure, meter, timelines, server_tls, client_tls
):
    """From the client's own option, as a mount."""
    listener = socket.create_server(("127.0.0.1", 0))
    with (
        ScriptedServer(SHORT, tls=server_tls if secure else None) as server,
        Relay(listener, int(server.url.rpartition(":")[2]), proxy="proxy") as relay,
    ):
        bodies = exchange(
            server.url,
            is_async=is_async,
            meter=meter,
            proxy=f"http://127.0.0.1:{relay.port}",
            verify=client_tls,
        )

    assert bodies == [sent(SHORT)]
    assert relay.heads[0].startswith(b"CONNECT " if secure else b"POST http://")
    assert timelines[0].stamp_source == KERNEL


def test_a_unix_socket_is_stamped_at_the_read(is_async, meter, timelines, tmp_path):
    """The kernel stamps none of its bytes; everything else is the same."""
    path = str(tmp_path / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    transport = (httpx2.AsyncHTTPTransport if is_async else httpx2.HTTPTransport)(uds=path)
    with (
        ScriptedServer(SHORT) as server,
        Relay(listener, int(server.url.rpartition(":")[2])),
    ):
        bodies = exchange(
            "http://localhost", is_async=is_async, count=2, meter=meter, transport=transport
        )

    assert bodies == [sent(SHORT)] * 2
    assert [timeline.stamp_source for timeline in timelines] == ["recv", "recv"]


def test_local_address_and_socket_options_take_effect(is_async, meter, timelines):
    kind = httpx2.AsyncHTTPTransport if is_async else httpx2.HTTPTransport
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    transport = kind(local_address="127.0.0.1", socket_options=options)
    with ScriptedServer(SHORT) as server:
        assert exchange(server.url, is_async=is_async, meter=meter, transport=transport)
    assert timelines[0].stamp_source == KERNEL


def test_nobody_listening_is_a_connect_error(family, is_async, meter, timelines):
    with ScriptedServer(SHORT) as server:
        url = server.url
    with pytest.raises(sys.modules[family].ConnectError):
        exchange(url, is_async=is_async, family=family, meter=meter)
    assert timelines[0].error_type == f"{family}.ConnectError"


def test_an_untrusted_certificate_is_a_connect_error(family, is_async, meter, server_tls):
    before = open_files()
    with ScriptedServer(SHORT, tls=server_tls) as server:
        with pytest.raises(sys.modules[family].ConnectError, match="CERTIFICATE"):
            exchange(server.url, is_async=is_async, family=family, meter=meter)
        assert not server.served
    assert open_files() <= before


def test_a_handshake_that_gets_no_answer_is_a_connect_timeout(family, is_async, meter):
    module = sys.modules[family]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        timeout = module.Timeout(5, connect=0.2)
        with pytest.raises(module.ConnectTimeout):
            exchange(url, is_async=is_async, family=family, meter=meter, timeout=timeout)


def test_a_peer_that_hangs_up_in_the_handshake_is_a_connect_error(family, is_async, meter):
    def hang_up():
        peer, _ = listener.accept()
        peer.recv(100)
        peer.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(sys.modules[family].ConnectError):
            exchange(url, is_async=is_async, family=family, meter=meter)
        thread.join(10)


def test_a_silent_server_is_a_read_timeout(
    family, is_async, secure, meter, timelines, server_tls, client_tls
):
    reply = ScriptedReply.of_events(EVENTS[:4], end="hang")
    module = sys.modules[family]
    with (
        ScriptedServer(reply, tls=server_tls if secure else None) as server,
        pytest.raises(module.ReadTimeout),
    ):
        exchange(
            server.url,
            is_async=is_async,
            family=family,
            meter=meter,
            timeout=0.4,
            verify=client_tls,
        )

    assert (timelines[0].outcome, timelines[0].error_type) == (Outcome.ERROR, "timeout")
    assert len(timelines[0].events) == 3


def test_a_reset_comes_after_the_bytes_before_it(family, is_async, meter, timelines):
    reply = ScriptedReply.of_events(EVENTS[:6], end="reset")
    module = sys.modules[family]
    with (
        ScriptedServer(reply) as server,
        pytest.raises((module.ReadError, module.RemoteProtocolError)),
    ):
        exchange(server.url, is_async=is_async, family=family, meter=meter, pause_s=0.03)

    assert timelines[0].outcome is Outcome.TRUNCATED
    assert len(timelines[0].events) >= (5 if is_async else 1)


def test_a_cancelled_read_leaves_nothing_open(meter, timelines):
    """Neither a task nor a connection."""
    reply = ScriptedReply.of_events(EVENTS[:3], end="hang")

    async def main(server):
        async with phasemeter.http_client(is_async=True, meter=meter) as client:

            async def consume():
                async with client.stream("POST", server.url + PATH, json=BODY) as response:
                    async for _ in response.aiter_bytes():
                        pass

            task = asyncio.create_task(consume())
            while not server.served or len(server.served[0].sent_ns) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(asyncio.all_tasks()) == 1

    before = open_files()
    with ScriptedServer(reply) as server:
        asyncio.run(main(server))
    assert open_files() <= before
    assert timelines[0].outcome is Outcome.CANCELLED


def test_a_connection_that_the_server_closed_when_idle_is_not_used_again(is_async, meter):
    """Its end is seen where it was read ahead and where it was not."""
    reply = ScriptedReply.of_events(EVENTS[:3], framing="length")
    closing = ScriptedReply.of_events(EVENTS[:3], framing="length", end="reset")

    async def main(server):
        async with phasemeter.http_client(is_async=True, meter=meter) as client:
            for _ in range(3):
                await client.post(server.url + PATH, json=BODY)
                await asyncio.sleep(0.1)

    with ScriptedServer(closing, reply) as server:
        if is_async:
            asyncio.run(main(server))
        else:
            with phasemeter.http_client(meter=meter) as client:
                for _ in range(3):
                    client.post(server.url + PATH, json=BODY)
                    time.sleep(0.1)

    assert [served.connection for served in server.served] == [0, 1, 1]


def test_a_body_beyond_the_bound_presses_back_on_the_server(meter, secure, server_tls, client_tls):
    """While the consumer sleeps, the server cannot send the whole of 64 MiB; every byte comes."""
    piece = os.urandom(1024 * 1024)
    reply = ScriptedReply([ScriptedRead(0, (piece,)) for _ in range(64)])
    seen = []

    async def main(server):
        total = 0
        options = {"timeout": 60, "verify": client_tls}
        async with (
            phasemeter.http_client(is_async=True, meter=meter, **options) as client,
            client.stream("POST", server.url + PATH, json=BODY) as response,
        ):
            async for data in response.aiter_raw():
                if not total:
                    await asyncio.sleep(0.5)
                    seen.append(len(server.served[0].sent_ns))
                total += len(data)
        return total

    with ScriptedServer(reply, tls=server_tls if secure else None) as server:
        assert asyncio.run(main(server)) == 64 * len(piece)
    assert seen[0] < 40


def test_a_large_request_over_tls_arrives_whole(is_async, meter, server_tls, client_tls):
    body = {**BODY, "prompt": "x" * 3_000_000}
    with ScriptedServer(SHORT, tls=server_tls) as server:
        exchange(server.url, is_async=is_async, body=body, meter=meter, verify=client_tls)
    assert len(server.served[0].body) > 3_000_000


@pytest.mark.parametrize("closes", [True, False])
def test_a_dropped_stream_and_client_go(closes, meter):
    """With the loop still running, and with one that was closed over it: no warning, no descriptor."""
    reply = ScriptedReply.of_events(EVENTS[:3], end="hang")
    kept = []

    async def main(server):
        client = phasemeter.http_client(is_async=True, meter=meter)
        request = client.build_request("POST", server.url + PATH, json=BODY)
        response = await client.send(request, stream=True)
        network = response.extensions["network_stream"]
        reader = weakref.ref(network._reader)
        if closes:
            await response.aclose()
            await client.aclose()
            del client, request, response, network
            gc.collect()
            assert reader() is None
        else:
            kept.append((client, response))
        return reader

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)  # httpx's own, as without us
        with ScriptedServer(reply) as server:
            loop = asyncio.new_event_loop()
            reader = loop.run_until_complete(main(server))
            loop.close()
            kept.clear()
            meter.close()
            gc.collect()
    assert reader() is None


def test_what_has_no_socket_is_stamped_where_it_yields(meter, timelines):
    """A transport without a pool."""
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=sent(SHORT)))
    exchange("http://h", is_async=False, meter=meter, transport=transport)
    assert timelines[0].stamp_source == "yield"


def test_a_clock_of_ones_own_has_no_kernel_stamps(is_async, timelines):
    """The kernel knows one clock."""
    clock = FakeClock()
    meter = phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)], clock=clock)
    clock.advance_ms(5)
    with ScriptedServer(SHORT) as server:
        exchange(server.url, is_async=is_async, meter=meter)
    assert timelines[0].stamp_source == "recv"
    assert {event.t_ns for event in timelines[0].events} == {5_000_000}


def test_without_a_spare_descriptor_the_read_is_stamped(monkeypatch, meter, timelines):
    """The connection is there; only its kernel stamps are not to be had."""

    def no_more(descriptor):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("phasemeter.transports.kernel.os.dup", no_more)
    with ScriptedServer(SHORT) as server:
        assert exchange(server.url, is_async=True, meter=meter) == [sent(SHORT)]
    assert timelines[0].stamp_source == "recv"


def test_under_trio_the_read_is_stamped(meter, timelines):
    """There is no asyncio loop to read with."""
    with ScriptedServer(SHORT) as server:
        bodies = exchange(server.url, is_async=True, run=trio_run, meter=meter)
    assert bodies == [sent(SHORT)]
    assert timelines[0].stamp_source == "recv"


def trio_run(coroutine):
    async def main():
        return await coroutine

    return trio.run(main)


def test_what_cannot_be_done_is_told_in_one_line(monkeypatch):
    with pytest.raises(phasemeter.UsageError, match="http2=True: kernel stamps need"):
        phasemeter.http_client(http2=True)
    with pytest.raises(phasemeter.UsageError, match="family: 'requests' is no HTTP library"):
        phasemeter.http_client(family="requests")
    monkeypatch.setattr("phasemeter.clients.http_client.find_spec", lambda name: None)
    with pytest.raises(phasemeter.UsageError, match="needs httpx, which is not installed"):
        phasemeter.http_client(family="httpx")


def test_the_class_is_the_familys_own():
    """And httpx2's where both are installed."""
    for made, cls in [
        (phasemeter.http_client(), httpx2.Client),
        (phasemeter.http_client(family="httpx"), httpx.Client),
    ]:
        assert type(made) is cls
        made.close()
    assert type(phasemeter.http_client(is_async=True)) is httpx2.AsyncClient
    assert type(phasemeter.http_client(is_async=True, family="httpx")) is httpx.AsyncClient


def test_disabled_it_is_a_plain_client(monkeypatch, meter, timelines):
    """As wrap() then returns what it was given."""
    monkeypatch.setenv("PHASEMETER_DISABLED", "1")
    with ScriptedServer(SHORT) as server:
        assert exchange(server.url, is_async=False, meter=meter) == [sent(SHORT)]
    assert not timelines
