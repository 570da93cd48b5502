"""Real clients over real sockets: what a consumer that takes its time does to the arrivals.

The stream brings a token every 20 ms, the consumer takes 50 ms for each. Arrivals are compared with when
the server really sent.
"""

import asyncio
import gc
import time
import weakref
from itertools import pairwise
from statistics import median

import httpx
import httpx2
import openai
import pytest
import uvloop

import phasemeter
from phasemeter.core.timeline import Outcome
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events

TOKENS = 25
EVENTS = chat_events(first_ms=60, gap_ms=20, kinds=("content",) * TOKENS)
MESSAGES = [{"role": "user", "content": "hi"}]
BODY = {"model": "m", "stream": True}


def late_ms(timeline, served):
    """How much later than sent each token arrived; a role chunk comes before the tokens."""
    sent_ns = served.sent_ns[1 : 1 + len(timeline.events)]
    return [(event.t_ns - at) / 1e6 for event, at in zip(timeline.events, sent_ns, strict=True)]


def check_arrivals(timeline, served):
    """The arrivals are the server's, up to what a busy machine adds.

    The consumer would make every gap 50 ms, and the last token late by 30 ms for each one before it.
    """
    late = sorted(late_ms(timeline, served))
    gaps_ms = [gap_ns / 1e6 for gap_ns, _ in timeline.gaps()]
    assert timeline.outcome is Outcome.OK
    assert len(timeline.events) == TOKENS
    assert late[len(late) // 2] < 30
    assert late[len(late) * 9 // 10] < 150
    assert median(gaps_ms) < 35


def check_no_gap_of_the_consumers(timeline, served):
    """What piled up is coalesced, and the read it came in is marked."""
    longest_ns = max(later - earlier for earlier, later in pairwise(served.sent_ns))
    assert timeline.coalesced_events >= TOKENS // 3
    assert timeline.consumer_limited_gaps >= 1
    assert all(gap_ns < longest_ns + 25e6 for gap_ns in timeline.gaps_ns())


def others():
    """Tasks of ours; the loop has some of its own, which close what a client has dropped."""
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("phasemeter")]


async def settled():
    """Wait until nothing of ours runs; a cancelled task takes a turn of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not others()


@pytest.fixture(params=["plain", "tls"])
def secure(request):
    return request.param == "tls"


@pytest.fixture
def timelines():
    return []


@pytest.fixture
def meter(timelines):
    return phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)])


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_async_consumer_that_sleeps_does_not_move_the_arrivals(
    run, secure, meter, timelines, server_tls, client_tls
):
    """Two responses on one connection."""

    async def main(server):
        http = httpx2.AsyncClient(verify=client_tls)
        raw = openai.AsyncOpenAI(base_url=server.url, api_key="k", http_client=http)
        async with meter.wrap(raw) as client:
            for _ in range(2):
                stream = await client.chat.completions.create(
                    model="m", messages=MESSAGES, stream=True
                )
                async for _ in stream:
                    await asyncio.sleep(0.05)
                await settled()

    with ScriptedServer(ScriptedReply.of_events(EVENTS), tls=server_tls if secure else None) as it:
        run(main(it))

    assert [timeline.stamp_source for timeline in timelines] == ["recv", "recv"]
    assert [served.connection for served in it.served] == [0, 0]
    for timeline, served in zip(timelines, it.served, strict=True):
        check_arrivals(timeline, served)


@pytest.mark.parametrize("family", [httpx, httpx2])
def test_bare_http_clients_too(family, meter, timelines):
    async def main(server):
        async with (
            meter.wrap(family.AsyncClient()) as client,
            client.stream("POST", server.url + "/chat/completions", json=BODY) as response,
        ):
            async for _ in response.aiter_bytes():
                await asyncio.sleep(0.05)
            await settled()

    with ScriptedServer(ScriptedReply.of_events(EVENTS)) as server:
        asyncio.run(main(server))

    check_arrivals(timelines[0], server.served[0])


def test_a_consumer_that_blocks_the_loop_finds_coalesced_events(meter, timelines):
    """Nobody can read for it; what piled up is counted and not given times of its own."""

    async def main(server):
        async with (
            meter.wrap(httpx2.AsyncClient()) as client,
            client.stream("POST", server.url + "/chat/completions", json=BODY) as response,
        ):
            async for _ in response.aiter_bytes():
                time.sleep(0.05)  # noqa: ASYNC251  the fault that is tested

    with ScriptedServer(ScriptedReply.of_events(EVENTS)) as server:
        asyncio.run(main(server))

    check_no_gap_of_the_consumers(timelines[0], server.served[0])


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("stamps", ["recv", "kernel"])
@pytest.mark.parametrize("together", [1, 3])
def test_a_consumer_that_holds_up_the_loop_finds_no_gap_of_its_own(
    together, stamps, run, meter, timelines
):
    """It lets the loop turn after each chunk, so that what had piled up is read ahead.

    Where the first read brings three chunks, so do all later ones, and the consumer asks for most chunks
    without asking the connection.
    """
    role, *singles = ScriptedReply.of_events(EVENTS).reads
    pile, rest = singles[:together], singles[together:]
    first = ScriptedRead(pile[0].t_ms, tuple(chunk for read in pile for chunk in read.chunks))

    async def main(server):
        http = (
            phasemeter.http_client(is_async=True, meter=meter)
            if stamps == "kernel"
            else meter.wrap(httpx2.AsyncClient())
        )
        async with (
            http as client,
            client.stream("POST", server.url + "/chat/completions", json=BODY) as response,
        ):
            async for _ in response.aiter_bytes():
                time.sleep(0.07)  # noqa: ASYNC251  the fault that is tested
                await asyncio.sleep(0.001)

    with ScriptedServer(ScriptedReply([role, first, *rest])) as server:
        run(main(server))

    (timeline,) = timelines
    sent_ns = server.served[0].sent_ns[2:]
    longest_ns = max(later - earlier for earlier, later in pairwise(sent_ns))
    assert timeline.coalesced_events >= TOKENS // 2
    assert timeline.consumer_limited_gaps >= 4
    assert all(gap_ns < longest_ns + 25e6 for gap_ns in timeline.gaps_ns())


def test_a_blocking_consumer_finds_coalesced_events(meter, timelines):
    """A blocking client reads only when it is asked."""
    with (
        ScriptedServer(ScriptedReply.of_events(EVENTS)) as server,
        meter.wrap(openai.OpenAI(base_url=server.url, api_key="k")) as client,
    ):
        for _ in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
            time.sleep(0.05)

    assert timelines[0].outcome is Outcome.OK
    check_no_gap_of_the_consumers(timelines[0], server.served[0])


async def slow_read(meter, server, seconds=0.05, **options):
    """Read a response with pauses; what it raises is raised."""
    async with (
        meter.wrap(httpx2.AsyncClient(**options)) as client,
        client.stream("POST", server.url + "/chat/completions", json=BODY) as response,
    ):
        async for _ in response.aiter_bytes():
            await asyncio.sleep(seconds)


def test_a_silent_server_is_the_familys_read_timeout(
    meter, timelines, secure, server_tls, client_tls
):
    """Also where the read was under way before the consumer asked."""
    reply = ScriptedReply.of_events(EVENTS[:4], end="hang")

    async def main(server):
        with pytest.raises(httpx2.ReadTimeout):
            await slow_read(meter, server, timeout=0.3, verify=client_tls)
        await settled()

    with ScriptedServer(reply, tls=server_tls if secure else None) as server:
        asyncio.run(main(server))

    assert (timelines[0].outcome, timelines[0].error_type) == (Outcome.ERROR, "timeout")
    assert len(timelines[0].events) == 3


def test_a_reset_comes_out_after_the_bytes_before_it(meter, timelines):
    """As the family's own exception."""
    reply = ScriptedReply.of_events(EVENTS[:6], end="reset")

    async def main(server):
        with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
            await slow_read(meter, server)
        await settled()

    with ScriptedServer(reply) as server:
        asyncio.run(main(server))

    assert timelines[0].outcome is Outcome.TRUNCATED
    assert len(timelines[0].events) == 5


@pytest.mark.parametrize("inside", ["sleep", "read"])
def test_a_cancelled_task_leaves_nothing_running(inside, meter, timelines):
    """In the consumer's own sleep while a read is under way, or in that read."""
    reply = ScriptedReply.of_events(EVENTS[:3], end="hang")

    async def main(server):
        seconds = 60 if inside == "sleep" else 0.05
        task = asyncio.create_task(slow_read(meter, server, seconds))
        while not server.served or len(server.served[0].sent_ns) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settled()

    with ScriptedServer(reply) as server:
        asyncio.run(main(server))

    assert timelines[0].outcome is Outcome.CANCELLED


def test_an_abandoned_stream_goes_and_nothing_runs_on(meter, timelines):
    """Dropped while a read is under way; reported by the loop."""
    reply = ScriptedReply.of_events(EVENTS[:3], end="hang")

    async def main(server):
        async with meter.wrap(httpx2.AsyncClient()) as client:
            request = client.build_request("POST", server.url + "/chat/completions", json=BODY)
            response = await client.send(request, stream=True)
            chunks = response.aiter_bytes()
            await anext(chunks)
            await asyncio.sleep(0.1)
            assert len(others()) == 1
            gone = weakref.ref(response)
            await chunks.aclose()
            del response, chunks
            for _ in range(20):
                gc.collect()
                await asyncio.sleep(0.01)
            assert gone() is None
            assert not others()

    with ScriptedServer(reply) as server:
        asyncio.run(main(server))

    assert timelines[0].outcome in (Outcome.ABANDONED, Outcome.CANCELLED)


def test_an_idle_connection_closed_by_the_server_is_not_used_again(meter):
    """The end may have been read ahead; either way the next request gets a connection of its own."""
    reply = ScriptedReply.of_events(EVENTS, framing="length")
    closing = ScriptedReply.of_events(
        EVENTS, framing="length", headers=(("content-type", "text/event-stream"),), end="reset"
    )

    async def main(server):
        async with meter.wrap(httpx2.AsyncClient()) as client:
            for _ in range(3):
                async with client.stream(
                    "POST", server.url + "/chat/completions", json=BODY
                ) as response:
                    async for _ in response.aiter_bytes():
                        await asyncio.sleep(0.03)
                await asyncio.sleep(0.1)
                await settled()

    with ScriptedServer(closing, reply) as server:
        asyncio.run(main(server))

    assert [served.connection for served in server.served] == [0, 1, 1]


def test_a_body_beyond_the_bound_presses_back_on_the_server(meter):
    """While the consumer sleeps, the server cannot send the whole of 64 MiB."""
    piece = bytes(1024 * 1024)
    reply = ScriptedReply([ScriptedRead(0, (piece,)) for _ in range(64)])
    seen = []

    async def main(server):
        total = 0
        async with (
            meter.wrap(httpx2.AsyncClient(timeout=60)) as client,
            client.stream("POST", server.url + "/chat/completions", json=BODY) as response,
        ):
            async for data in response.aiter_raw():
                if not total:
                    await asyncio.sleep(0.5)
                    seen.append(len(server.served[0].sent_ns))
                total += len(data)
        return total

    with ScriptedServer(reply) as server:
        assert asyncio.run(main(server)) == 64 * len(piece)
    assert seen[0] < 40
