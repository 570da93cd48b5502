"""Wrapped clients: same types, same exceptions, phases as the server sent them."""

import asyncio

import httpx
import httpx2
import openai
import pytest

import phasemeter
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.timeline import Outcome
from phasemeter.dialects import by_name
from phasemeter.metrics import E2E, TTFT
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events

# One scripted write against one read of the client: both on this machine, which may be loaded.
TOLERANCE_NS = 30_000_000
MESSAGES = [{"role": "user", "content": "hi"}]
KINDS = ("reasoning", "reasoning", "content", "content", "content")


@pytest.fixture
def timelines():
    return []


@pytest.fixture
def meter(timelines):
    return phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)])


def chat_reply(**options):
    return ScriptedReply.of_events(chat_events(**{"kinds": KINDS, **options}))


def sync_chat(meter, url):
    with meter.wrap(openai.OpenAI(base_url=url + "/v1", api_key="k", max_retries=0)) as client:
        stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        assert isinstance(stream, openai.Stream)
        assert phasemeter.timeline(stream) is None
        chunks = list(stream)
    return phasemeter.timeline(stream), len(chunks)


def async_chat(meter, url):
    async def run():
        raw = openai.AsyncOpenAI(base_url=url + "/v1", api_key="k", max_retries=0)
        async with meter.wrap(raw) as client:
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            assert isinstance(stream, openai.AsyncStream)
            assert phasemeter.timeline(stream) is None
            chunks = [chunk async for chunk in stream]
        return phasemeter.timeline(stream), len(chunks)

    return asyncio.run(run())


def sync_family(family):
    def run(meter, url):
        with meter.wrap(family.Client()) as client:
            assert type(client) is family.Client
            body = {"model": "m", "stream": True}
            with client.stream("POST", url + "/v1/chat/completions", json=body) as response:
                lines = [line for line in response.iter_lines() if line.startswith("data: {")]
        return phasemeter.timeline(response), len(lines)

    return run


def async_family(family):
    def run(meter, url):
        async def go():
            async with meter.wrap(family.AsyncClient()) as client:
                body = {"model": "m", "stream": True}
                async with client.stream("POST", url + "/v1/chat/completions", json=body) as got:
                    lines = [line async for line in got.aiter_lines() if line.startswith("data: {")]
            return phasemeter.timeline(got), len(lines)

        return asyncio.run(go())

    return run


SURFACES = {
    "openai": sync_chat,
    "async openai": async_chat,
    "httpx": sync_family(httpx),
    "async httpx": async_family(httpx),
    "httpx2": sync_family(httpx2),
    "async httpx2": async_family(httpx2),
}


@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES)
def test_phases_agree_with_the_servers_own_send_log(surface, meter, timelines):
    """Each token's stamp lies after the write that brought it, and close to it; instants in order."""
    with ScriptedServer(chat_reply()) as server:
        timeline, chunks = surface(meter, server.url)
        served = server.served[0]

    assert timelines == [timeline]
    assert chunks == len(KINDS) + 3
    assert timeline.outcome is Outcome.OK
    assert timeline.stamp_source == "recv"
    assert [event.kind for event in timeline.events] == list(KINDS)
    for event, sent_ns in zip(timeline.events, served.sent_ns[1:], strict=False):
        # The server notes the time after its write returned, so the client may be a little earlier.
        assert -5_000_000 < event.t_ns - sent_ns < TOLERANCE_NS
    assert -5_000_000 < served.received_ns - timeline.sent_ns < TOLERANCE_NS
    assert timeline.started_ns <= timeline.connected_ns <= timeline.sent_ns <= timeline.headers_ns
    assert timeline.headers_ns <= timeline.first_event_ns <= timeline.first_token_ns
    assert timeline.usage.output_tokens == len(KINDS)
    assert timeline.model == "m"
    assert timeline.response_model == "scripted"


@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES)
def test_a_meter_fed_with_the_same_script_gives_the_same_token_events(surface, meter):
    """The SDK and a bare StreamMeter are one state machine: equal kinds, counts, reads, usage."""
    events = chat_events(kinds=KINDS, gap_ms=5)
    bare = StreamMeter(
        by_name("openai.chat"), request_id="x", model="m", started_ns=0, stamp_source="recv"
    )
    bare.on_headers(0, 200, {})
    for t_ms, data in events:
        bare.on_read(round(t_ms * 1e6), f"data: {data}\n\n".encode())
    expected = bare.finish(10**9, StreamEnd.EOF)

    with ScriptedServer(ScriptedReply.of_events(events)) as server:
        measured, _ = surface(meter, server.url)

    assert [(e.kind, e.tokens) for e in measured.events] == [
        (e.kind, e.tokens) for e in expected.events
    ]
    assert (measured.usage, measured.finish_reason) == (expected.usage, expected.finish_reason)
    assert measured.choices == expected.choices


def test_legacy_completions_are_timed(meter):
    """The completions endpoint speaks its own dialect and operation."""
    chunk = '{"object":"text_completion","model":"s","choices":[{"index":0,"text":"a"%s}]}'
    events = [(10, chunk % ""), (20, chunk % ',"finish_reason":"stop"'), (21, "[DONE]")]
    with ScriptedServer(ScriptedReply.of_events(events)) as server:
        client = meter.wrap(openai.OpenAI(base_url=server.url, api_key="k"))
        stream = client.completions.create(model="m", prompt="p", stream=True)
        list(stream)
        client.close()

    timeline = phasemeter.timeline(stream)

    assert (timeline.dialect, timeline.operation) == ("openai.completions", "text_completion")
    assert len(timeline.events) == 2


def test_a_call_that_is_not_streamed_has_an_end_to_end_time_and_no_phases(meter, timelines):
    """One JSON body: streamed False, e2e known, ttft undefined."""
    body = (
        b'{"id":"x","object":"chat.completion","created":1,"model":"s","choices":[{"index":0,'
        b'"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}'
    )
    reply = ScriptedReply(
        [ScriptedRead(10, (body,))], headers=(("content-type", "application/json"),)
    )
    with ScriptedServer(reply) as server:
        client = meter.wrap(openai.OpenAI(base_url=server.url, api_key="k"))
        answer = client.chat.completions.create(model="m", messages=MESSAGES)
        client.close()

    (timeline,) = timelines

    assert answer.choices[0].message.content == "hi"
    assert timeline.outcome is Outcome.OK
    assert timeline.streamed is False
    assert list(E2E.samples(timeline))
    assert not list(TTFT.samples(timeline))
    assert timeline.usage.output_tokens == 2


def test_raw_and_streaming_responses_and_stream_helpers_find_their_timeline(meter):
    """with_raw_response, with_streaming_response and .stream() lead back to the measurement."""
    with ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server:
        client = meter.wrap(openai.OpenAI(base_url=server.url, api_key="k"))
        completions = client.chat.completions
        raw = completions.with_raw_response.create(model="m", messages=MESSAGES, stream=True)
        list(raw.parse())
        with completions.with_streaming_response.create(
            model="m", messages=MESSAGES, stream=True
        ) as streaming:
            list(streaming.iter_lines())
        with completions.stream(model="m", messages=MESSAGES) as helper:
            list(helper)
        client.close()

    for one in (raw, streaming, helper):
        assert phasemeter.timeline(one).outcome is Outcome.OK


def test_a_reused_connection_has_no_connect_time(meter):
    """connected_ns stands only with the request that made the connection."""
    with (
        ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server,
        meter.wrap(httpx2.Client()) as client,
    ):
        timelines = []
        for _ in range(2):
            response = client.post(server.url + "/chat/completions", json={"stream": True})
            timelines.append(phasemeter.timeline(response))
        assert [one.connection for one in server.served] == [0, 0]

    assert timelines[0].connected_ns is not None
    assert timelines[1].connected_ns is None
    assert timelines[1].sent_ns is not None


def test_a_connection_from_before_wrapping_is_stamped_at_the_yield(meter):
    """Where the socket read cannot be seen, the record says so."""
    with ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server, httpx2.Client() as client:
        client.post(server.url + "/chat/completions", json={"stream": True})
        response = meter.wrap(client).post(server.url + "/chat/completions", json={"stream": True})

    timeline = phasemeter.timeline(response)

    assert timeline.stamp_source == "yield"
    assert (timeline.sent_ns, timeline.connected_ns) == (None, None)
    assert len(timeline.events) == len(KINDS)


def test_wrapping_twice_does_not_double(meter, timelines):
    """The timed client comes back as it is, and a request makes one record."""
    with ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server:
        client = meter.wrap(openai.OpenAI(base_url=server.url, api_key="k"))
        assert meter.wrap(client) is client
        http = meter.wrap(httpx.Client())
        assert meter.wrap(http) is http
        list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
        client.close()

    assert len(timelines) == 1


def test_other_requests_pass_untouched(meter, timelines):
    """A path of no known dialect is neither timed nor changed."""
    reply = ScriptedReply([ScriptedRead(0, (b"[]",))])
    with ScriptedServer(reply) as server, meter.wrap(httpx2.Client()) as client:
        response = client.get(server.url + "/v1/models")

    assert response.json() == []
    assert timelines == []
    with pytest.raises(LookupError, match="was not timed"):
        phasemeter.timeline(response)


def test_subclasses_azure_and_options_survive(meter):
    """The timed client has the type and the options of the given one, which stays as it was."""

    class Mine(openai.OpenAI):
        pass

    mine = Mine(api_key="k", base_url="http://127.0.0.1:1/v1", timeout=7.0, max_retries=5)
    azure = openai.AzureOpenAI(
        api_key="k", api_version="v", azure_endpoint="http://127.0.0.1:1", azure_deployment="d"
    )
    inner = mine._client

    timed, timed_azure = meter.wrap(mine), meter.wrap(azure)

    assert type(timed) is Mine
    assert type(timed_azure) is openai.AzureOpenAI
    assert (timed.timeout, timed.max_retries, timed.base_url) == (7.0, 5, mine.base_url)
    assert timed_azure.base_url == azure.base_url
    assert mine._client is inner
    timed.close()
    timed_azure.close()


def test_anything_else_is_refused_with_what_is_accepted(meter):
    """TypeError names the accepted clients and the way for iterators."""
    with pytest.raises(
        TypeError, match=r"openai\.OpenAI .* httpx2.*got builtins\.list.*time_stream"
    ):
        meter.wrap([])


def test_the_original_client_still_works_after_the_timed_one_is_gone(meter):
    """The timed client borrows the connections; dropping it closes nothing."""
    with ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server:
        client = openai.OpenAI(base_url=server.url, api_key="k")
        stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        first = next(stream)
        del first
        timed = meter.wrap(client)
        del timed
        rest = list(stream)
        client.close()

    assert len(rest) == len(KINDS) + 2


def test_the_given_client_may_be_dropped(meter):
    """wrap(OpenAI()) keeps what it borrows alive."""
    with ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server:
        client = meter.wrap(openai.OpenAI(base_url=server.url, api_key="k"))
        for _ in range(2):
            stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            assert len(list(stream)) == len(KINDS) + 3
        client.close()


def test_a_mock_transport_is_timed_at_the_yield(meter, timelines):
    """A response made in memory is recorded once, although its stream is never read."""
    events = chat_events(kinds=KINDS)
    body = "".join(f"data: {data}\n\n" for _, data in events)
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, text=body))
    with meter.wrap(httpx2.Client(transport=transport)) as client:
        client.post("http://x/v1/chat/completions", json={"stream": True})

    (timeline,) = timelines

    assert (timeline.outcome, timeline.stamp_source) == (Outcome.OK, "yield")
    assert timeline.coalesced_events == len(KINDS) - 1


def test_mounted_transports_are_timed_too(meter, timelines):
    """A mount is wrapped like the default transport; a None mount stays None."""
    body = "data: [DONE]\n\n"
    mounts = {
        "http://mounted": httpx2.MockTransport(lambda request: httpx2.Response(200, text=body)),
        "http://direct": None,
    }
    with meter.wrap(httpx2.Client(mounts=mounts)) as client:
        client.post("http://mounted/v1/chat/completions", json={"stream": True})

    assert [one.outcome for one in timelines] == [Outcome.EMPTY]


def test_coalesced_chunks_of_one_read_are_one_read(meter):
    """Three HTTP chunks in one write arrive as one read: no gaps between them."""
    events = chat_events(kinds=("content",) * 3, first_ms=5, gap_ms=0)
    chunks = tuple(f"data: {data}\n\n".encode() for _, data in events)
    reply = ScriptedReply([ScriptedRead(5, chunks)], headers_t_ms=1)
    with (
        ScriptedServer(reply) as server,
        meter.wrap(httpx2.Client()) as client,
        client.stream("POST", server.url + "/chat/completions", json={"stream": True}) as got,
    ):
        raw = list(got.iter_raw())

    timeline = phasemeter.timeline(got)

    assert raw == list(chunks)  # boundaries as the server made them
    assert timeline.coalesced_events == 2
    assert list(timeline.gaps()) == []


def test_openai_over_the_other_family_is_timed_over_that_family(meter):
    """openai 3 takes an httpx client too; the timed one is of the same family."""
    with ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server:
        raw = openai.OpenAI(base_url=server.url, api_key="k", http_client=httpx.Client())
        client = meter.wrap(raw)
        assert type(client._client) is httpx.Client
        stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        list(stream)
        client.close()

    assert phasemeter.timeline(stream).stamp_source == "recv"
