"""Every way out of a stream: one record and one request span, the right outcome, nothing leaked."""

import asyncio
import gc
import weakref

import httpx
import httpx2
import openai
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import phasemeter
from phasemeter.core.timeline import Outcome
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events

MESSAGES = [{"role": "user", "content": "hi"}]


class Watched:
    """A Meter with its records and spans."""

    def __init__(self):
        self.timelines = []
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meter = phasemeter.Meter(
            sinks=[
                phasemeter.CallbackSink(self.timelines.append),
                phasemeter.OtelSink(tracer_provider=provider),
                phasemeter.HdrSink(),
            ]
        )

    def check(self, outcome, error_type, *, is_error):
        self.meter.snapshot()  # a use of the Meter: reports what was dropped
        (timeline,) = self.timelines
        spans = self.exporter.get_finished_spans()
        requests = [span for span in spans if span.name.startswith("chat")]
        assert len(requests) == 1
        assert (timeline.outcome, timeline.error_type) == (outcome, error_type)
        expected = StatusCode.ERROR if is_error else StatusCode.UNSET
        assert requests[0].status.status_code is expected
        assert ("error.type" in requests[0].attributes) == is_error
        assert requests[0].end_time - requests[0].start_time == (
            timeline.ended_ns - timeline.started_ns
        )
        return timeline


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


class Stop(Exception):
    pass


def leave_by_close(stream):
    next(stream)
    stream.close()
    stream.close()


def leave_by_with(stream):
    with stream:
        next(stream)


def leave_by_user_exception(stream):
    def use():
        with stream:
            next(stream)
            raise Stop

    with pytest.raises(Stop):
        use()


def leave_by_closing_a_generator_around(stream):
    def mine():
        with stream:
            yield from stream

    generator = mine()
    next(generator)
    generator.close()


@pytest.mark.parametrize(
    "leave",
    [leave_by_close, leave_by_with, leave_by_user_exception, leave_by_closing_a_generator_around],
)
def test_a_deliberate_close_is_cancelled_and_no_error(leave, watched, slow_server):
    """close(), with, an exception of the user's inside with, a closed generator around it."""
    with openai_client(watched, slow_server) as client:
        leave(start(client))

        timeline = watched.check(Outcome.CANCELLED, None, is_error=False)

    assert timeline.ended_ns == timeline.first_event_ns  # the last read that was handed over


def test_a_dropped_stream_is_abandoned_and_ends_at_its_last_read(watched, slow_server):
    """break without close: the collector finds it; the end is the last read's time."""
    with openai_client(watched, slow_server) as client:
        stream = start(client)
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        gone = weakref.ref(stream.response)
        del stream, chunk
        gc.collect()

        timeline = watched.check(Outcome.ABANDONED, None, is_error=True)

    assert timeline.ended_ns == timeline.last_token_ns
    gc.collect()
    assert gone() is None


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


def test_an_async_close_is_no_error(watched, slow_server):
    """Leaving `async with` closes."""

    async def run():
        async with (
            async_openai_client(watched, slow_server) as client,
            await start(client) as stream,
        ):
            await anext(stream)

    asyncio.run(run())

    watched.check(Outcome.CANCELLED, None, is_error=False)


@pytest.mark.parametrize("inside", ["read", "user code"])
def test_a_cancelled_task_is_cancelled_and_an_error(inside, watched, slow_server):
    """CancelledError while waiting for a chunk, or in the user's own await."""

    async def consume(client, reached):
        async with await start(client) as stream:
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    reached.set()
                    if inside == "user code":
                        await asyncio.Event().wait()

    async def run():
        async with async_openai_client(watched, slow_server) as client:
            reached = asyncio.Event()
            task = asyncio.create_task(consume(client, reached))
            await reached.wait()
            if inside == "read":
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())

    watched.check(Outcome.CANCELLED, "asyncio.CancelledError", is_error=True)


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


def test_a_lost_connection_is_truncated_and_raises_as_without_us(watched):
    """The server resets in the middle: partial timings are kept."""
    events = chat_events(first_ms=2, gap_ms=2, kinds=("content",) * 3, finish_reason=None)
    with (
        ScriptedServer(ScriptedReply.of_events(events, end="reset")) as server,
        openai_client(watched, server) as client,
        pytest.raises(openai.APIConnectionError),
    ):
        list(start(client))

    (timeline,) = watched.timelines
    watched.check(Outcome.TRUNCATED, timeline.error_type, is_error=True)
    assert timeline.error_type.startswith("httpx2.")
    assert timeline.events


def test_a_body_that_ends_early_is_truncated(watched):
    """A clean end of the body without finish reason or end mark."""
    events = chat_events(first_ms=2, gap_ms=2, kinds=("content",) * 3, finish_reason=None)
    with (
        ScriptedServer(ScriptedReply.of_events(events)) as server,
        openai_client(watched, server) as client,
    ):
        list(start(client))

    watched.check(Outcome.TRUNCATED, None, is_error=True)


def test_a_read_timeout_is_an_error(watched, slow_server):
    """openai's own exception comes through."""
    with openai_client(watched, slow_server, timeout=0.3) as client:
        with pytest.raises(openai.APITimeoutError):
            list(start(client))

        timeline = watched.check(Outcome.ERROR, "timeout", is_error=True)

    assert timeline.events


def test_no_connection_is_an_error_with_the_exceptions_name(watched):
    """Nobody listens: the same exception object class as without us, and a record."""
    with ScriptedServer(ScriptedReply([])) as server:
        url = server.url
    with watched.meter.wrap(httpx2.Client()) as client, pytest.raises(httpx2.ConnectError):
        client.post(url + "/chat/completions", json={"stream": True, "model": "m"})

    timeline = watched.check(Outcome.ERROR, "httpx2.ConnectError", is_error=True)
    assert timeline.http_status is None


def test_an_http_error_keeps_its_class_and_status(watched):
    """429 with a JSON body: the client's exception, and the error's class in the record."""
    body = b'{"error":{"message":"slow down","type":"rate_limit_exceeded"}}'
    reply = ScriptedReply(
        [ScriptedRead(0, (body,))], status=429, headers=(("content-type", "application/json"),)
    )
    with (
        ScriptedServer(reply) as server,
        openai_client(watched, server) as client,
        pytest.raises(openai.RateLimitError, match="slow down"),
    ):
        start(client)

    timeline = watched.check(Outcome.ERROR, "rate_limit", is_error=True)
    assert timeline.http_status == 429


@pytest.mark.parametrize("is_async", [False, True])
def test_the_client_closing_at_the_end_mark_is_ok(is_async, watched):
    """openai closes the response at [DONE], also where the body goes on or never ends."""
    events = chat_events(first_ms=2, gap_ms=2, kinds=("content",) * 3)

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
        assert timeline.ended_ns - server.served[0].sent_ns[-1] < 50_000_000


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
