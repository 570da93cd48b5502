"""Ways out of a stream that only some clients have; what all have is in test_lifecycle.py."""

import asyncio
import gc
import weakref

import httpx
import httpx2
import openai
import pytest

from phasemeter.core.timeline import Outcome
from phasemeter.testing import ScriptedReply, ScriptedServer, chat_events
from tests.clients.watched import Watched

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture
def watched():
    return Watched()


@pytest.fixture
def slow_server():
    """Five tokens, then silence: whoever leaves, leaves in the middle."""
    events = chat_events(first_ms=2, gap_ms=2, kinds=("content",) * 5, finish_reason=None)
    with ScriptedServer(ScriptedReply.of_events(events, end="hang")) as server:
        yield server


def openai_client(watched, server, **options):
    raw = openai.OpenAI(base_url=server.url, api_key="k", max_retries=0, **options)
    return watched.meter.wrap(raw)


def async_openai_client(watched, server, **options):
    raw = openai.AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0, **options)
    return watched.meter.wrap(raw)


def start(client):
    return client.chat.completions.create(model="m", messages=MESSAGES, stream=True)


def test_a_closed_generator_around_a_stream_is_a_deliberate_close(watched, slow_server):
    """The user's own generator holds `with stream`, and is closed."""

    def mine(stream):
        with stream:
            yield from stream

    with openai_client(watched, slow_server) as client:
        generator = mine(start(client))
        next(generator)
        generator.close()

        timeline = watched.check(Outcome.CANCELLED, None, is_error=False)

    assert timeline.ended_ns == timeline.first_event_ns  # the last read that was handed over


def test_a_response_dropped_unread_is_abandoned(watched, slow_server):
    """Not one byte of the body was asked for."""
    client = watched.meter.wrap(httpx2.Client())
    request = client.build_request(
        "POST", slow_server.url + "/chat/completions", json={"stream": 1}
    )
    response = client.send(request, stream=True)
    gone = weakref.ref(response)
    del response
    gc.collect()

    watched.check(Outcome.ABANDONED, None, is_error=True)

    assert gone() is None
    client.close()


def test_a_dropped_async_stream_is_reported_by_its_loop(watched, slow_server):
    """Without any further use of the Meter, as soon as the loop turns."""

    async def run():
        async with async_openai_client(watched, slow_server) as client:
            stream = await start(client)
            async for _ in stream:
                break
            del stream
            for _ in range(100):
                gc.collect()
                await asyncio.sleep(0.01)
                if watched.timelines:
                    return

    asyncio.run(run())

    watched.check(Outcome.ABANDONED, None, is_error=True)


def test_a_cancel_before_the_headers_is_recorded(watched):
    """The request was issued, so it counts."""
    reply = ScriptedReply([], headers_t_ms=60_000)

    async def run():
        async with async_openai_client(watched, server) as client:
            task = asyncio.create_task(start(client))
            while not server.served:  # noqa: ASYNC110  another thread's progress
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with ScriptedServer(reply) as server:
        asyncio.run(run())

    timeline = watched.check(Outcome.CANCELLED, "asyncio.CancelledError", is_error=True)
    assert timeline.headers_ns is None


def test_no_connection_is_an_error_with_the_exceptions_name(watched):
    """Nobody listens: the same exception object class as without us, and a record."""
    with ScriptedServer(ScriptedReply([])) as server:
        url = server.url
    with watched.meter.wrap(httpx2.Client()) as client, pytest.raises(httpx2.ConnectError):
        client.post(url + "/chat/completions", json={"stream": True, "model": "m"})

    timeline = watched.check(Outcome.ERROR, "httpx2.ConnectError", is_error=True)
    assert timeline.http_status is None


@pytest.mark.parametrize("is_async", [False, True])
def test_the_client_closing_at_the_end_mark_is_ok(is_async, watched):
    """openai closes the response at [DONE], also where the body goes on or never ends."""
    events = chat_events(first_ms=2, gap_ms=50, kinds=("content",) * 3)

    async def run(server):
        async with async_openai_client(watched, server) as client:
            async for _ in await start(client):
                pass

    with ScriptedServer(ScriptedReply.of_events(events, end="hang")) as server:
        if is_async:
            asyncio.run(run(server))
        else:
            with openai_client(watched, server) as client:
                list(start(client))

        timeline = watched.check(Outcome.OK, None, is_error=False)
        spans = {span.name: span for span in watched.exporter.get_finished_spans()}
        prefill, decode, parent = (spans[name] for name in ("prefill", "decode", "chat m"))
        lengths = [one.end_time - one.start_time for one in (prefill, decode)]
        assert sum(lengths) == timeline.last_token_ns - timeline.started_ns
        assert prefill.start_time == parent.start_time
        assert timeline.ended_ns - server.served[0].sent_ns[-1] < 1_000_000_000


@pytest.mark.parametrize("family", [httpx, httpx2])
def test_a_break_inside_with_is_a_deliberate_close(family, watched, slow_server):
    """The dropped byte iterator is the user's way of stopping; leaving `with` closes."""
    body = {"stream": True, "model": "m"}
    with (
        watched.meter.wrap(family.Client()) as client,
        client.stream("POST", slow_server.url + "/chat/completions", json=body) as response,
    ):
        for _ in response.iter_bytes():
            break

    watched.check(Outcome.CANCELLED, None, is_error=False)


@pytest.mark.parametrize("family", [httpx, httpx2])
def test_a_break_inside_async_with_is_a_deliberate_close(family, watched, slow_server):
    """The same, async."""

    async def run():
        body = {"stream": True, "model": "m"}
        async with (
            watched.meter.wrap(family.AsyncClient()) as client,
            client.stream("POST", slow_server.url + "/chat/completions", json=body) as response,
        ):
            async for _ in response.aiter_bytes():
                break

    asyncio.run(run())

    watched.check(Outcome.CANCELLED, None, is_error=False)


def test_a_callers_generator_that_is_dropped_closes_by_with(watched, slow_server):
    """A web handler's generator around `with`: dropping it is the handler's close."""

    def handler(client):
        with start(client) as stream:
            yield from stream

    with openai_client(watched, slow_server) as client:
        generator = handler(client)
        next(generator)
        del generator
        gc.collect()

        watched.check(Outcome.CANCELLED, None, is_error=False)


def test_an_interrupt_is_cancelled_and_named(watched):
    """KeyboardInterrupt out of a read."""

    class Interrupting(httpx2.BaseTransport):
        def handle_request(self, request):
            return httpx2.Response(200, stream=Body())

    class Body(httpx2.SyncByteStream):
        def __iter__(self):
            yield b"data: {}\n\n"
            raise KeyboardInterrupt

    client = watched.meter.wrap(httpx2.Client(transport=Interrupting()))
    with pytest.raises(KeyboardInterrupt):
        client.post("http://h/chat/completions", json={"stream": True, "model": "m"})

    timeline = watched.check(Outcome.CANCELLED, "KeyboardInterrupt", is_error=True)
    assert timeline.stamp_source == "yield"
