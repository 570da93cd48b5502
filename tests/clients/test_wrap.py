"""Wrapped clients: same types, same exceptions, phases as the server sent them."""

import asyncio

import anthropic
import httpx
import httpx2
import openai
import pytest

import phasemeter
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.timeline import Outcome
from phasemeter.dialects import by_name
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events
from tests.clients.surfaces import SURFACES
from tests.clients.wires import CHAT, MESSAGES, sse

MESSAGES_ASKED = [{"role": "user", "content": "hi"}]
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
        stream = client.chat.completions.create(model="m", messages=MESSAGES_ASKED, stream=True)
        assert isinstance(stream, openai.Stream)
        assert phasemeter.timeline(stream) is None
        chunks = list(stream)
    return phasemeter.timeline(stream), len(chunks)


def async_chat(meter, url):
    async def run():
        raw = openai.AsyncOpenAI(base_url=url + "/v1", api_key="k", max_retries=0)
        async with meter.wrap(raw) as client:
            stream = await client.chat.completions.create(
                model="m", messages=MESSAGES_ASKED, stream=True
            )
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


CHAT_CLIENTS = {
    "openai": sync_chat,
    "async openai": async_chat,
    "httpx": sync_family(httpx),
    "async httpx": async_family(httpx),
    "httpx2": sync_family(httpx2),
    "async httpx2": async_family(httpx2),
}


@pytest.mark.parametrize("surface", CHAT_CLIENTS.values(), ids=CHAT_CLIENTS)
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


def test_raw_and_streaming_responses_and_stream_helpers_find_their_timeline(meter):
    """with_raw_response, with_streaming_response and .stream() lead back to the measurement."""
    with ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server:
        client = meter.wrap(openai.OpenAI(base_url=server.url, api_key="k"))
        completions = client.chat.completions
        raw = completions.with_raw_response.create(model="m", messages=MESSAGES_ASKED, stream=True)
        list(raw.parse())
        with completions.with_streaming_response.create(
            model="m", messages=MESSAGES_ASKED, stream=True
        ) as streaming:
            list(streaming.iter_lines())
        with completions.stream(model="m", messages=MESSAGES_ASKED) as helper:
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
        list(client.chat.completions.create(model="m", messages=MESSAGES_ASKED, stream=True))
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


def clients_of_every_kind():
    """One client of each class that needs no vendor's own library."""
    yield openai.OpenAI(api_key="k", timeout=7.0, max_retries=5, default_headers={"a": "b"})
    yield openai.AsyncOpenAI(api_key="k", organization="o", project="p", default_query={"q": "1"})
    azure = {"api_key": "k", "api_version": "v", "azure_endpoint": "http://127.0.0.1:1"}
    yield openai.AzureOpenAI(**azure, azure_deployment="d")
    yield openai.AsyncAzureOpenAI(**azure)
    yield anthropic.Anthropic(api_key="k", timeout=7.0, max_retries=5)
    yield anthropic.AsyncAnthropic(auth_token="t", default_headers={"a": "b"})
    yield anthropic.AnthropicVertex(region="r", project_id="p", access_token="t")
    yield anthropic.AsyncAnthropicVertex(region="r", project_id="p", access_token="t")


@pytest.mark.parametrize(
    "client", list(clients_of_every_kind()), ids=lambda one: type(one).__name__
)
def test_the_timed_client_has_the_type_and_the_options_of_the_given_one(client, meter):
    """And the given one stays as it was."""
    inner = client._client
    timed = meter.wrap(client)

    assert type(timed) is type(client)
    for name in ("timeout", "max_retries", "base_url", "_custom_headers", "_custom_query"):
        assert getattr(timed, name) == getattr(client, name)
    assert client._client is inner
    assert meter.wrap(timed) is timed


def test_what_the_librarys_own_copy_leaves_out_is_kept(meter):
    """Strict validation, and fields that the application has set."""
    client = openai.OpenAI(api_key="k", _strict_response_validation=True)
    client.tenant = "t"

    timed = meter.wrap(client)

    assert timed.tenant == "t"
    assert timed._strict_response_validation is True


class TenantOpenAI(openai.OpenAI):
    def __init__(self, tenant, **options):
        super().__init__(**options)
        self.tenant = tenant


class TenantAnthropic(anthropic.Anthropic):
    def __init__(self, tenant, **options):
        super().__init__(**options)
        self.tenant = tenant


def test_subclasses_with_constructors_of_their_own_are_copied_too(meter, timelines):
    """Whose own with_options() fails."""
    with ScriptedServer(CHAT.reply(), MESSAGES.reply()) as server:
        mine = meter.wrap(TenantOpenAI("t", base_url=server.url, api_key="k"))
        other = meter.wrap(TenantAnthropic("u", base_url=server.url, api_key="k"))
        list(SURFACES["chat"].ask(mine))
        list(SURFACES["messages"].ask(other))
        mine.close()
        other.close()

    assert (type(mine), mine.tenant) == (TenantOpenAI, "t")
    assert (type(other), other.tenant) == (TenantAnthropic, "u")
    assert [one.dialect for one in timelines] == ["openai.chat", "anthropic.messages"]


@pytest.mark.parametrize("surface", ["chat", "messages"])
def test_copies_of_a_timed_client_are_timed_once(surface, meter, timelines):
    """with_options() and copy()."""
    with ScriptedServer(SURFACES[surface].wire.reply()) as server:
        client = meter.wrap(SURFACES[surface].client(server.url, is_async=False))
        for one in (client.with_options(max_retries=3), client.copy(timeout=3.0)):
            list(SURFACES[surface].ask(one))
        client.close()

    assert [one.outcome for one in timelines] == [Outcome.OK, Outcome.OK]


@pytest.mark.parametrize("surface", ["chat-helper", "responses-helper", "messages-helper"])
def test_the_managers_of_stream_helpers_lead_to_the_timeline(surface, meter):
    """Also after `with` was left."""
    managers = {
        "chat-helper": lambda c: c.chat.completions.stream(model="m", messages=MESSAGES_ASKED),
        "responses-helper": lambda c: c.responses.stream(model="m", input="hi"),
        "messages-helper": lambda c: c.messages.stream(
            model="m", max_tokens=9, messages=MESSAGES_ASKED
        ),
    }
    with ScriptedServer(SURFACES[surface].wire.reply()) as server:
        client = meter.wrap(SURFACES[surface].client(server.url, is_async=False))
        manager = managers[surface](client)
        with manager as stream:
            list(stream)
        client.close()

    assert phasemeter.timeline(manager) is phasemeter.timeline(stream)
    assert phasemeter.timeline(manager).outcome is Outcome.OK


def test_thinking_and_tool_input_of_anthropics_helper_are_told_apart(meter):
    """text_stream hides both; the record does not."""
    deltas = [
        ("thinking", {"type": "thinking", "thinking": "", "signature": ""}),
        ("thinking_delta", {"type": "thinking_delta", "thinking": "ab"}),
        ("text", {"type": "text", "text": ""}),
        ("text_delta", {"type": "text_delta", "text": "ab"}),
        ("tool", {"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        ("json_delta", {"type": "input_json_delta", "partial_json": '{"a":1}'}),
    ]
    events, index = [MESSAGES.events[0]], -1
    for _, body in deltas:
        if body["type"].endswith("_delta"):
            document = {"type": "content_block_delta", "index": index, "delta": body}
            events.append(sse(document))
            events.append(sse({"type": "content_block_stop", "index": index}))
        else:
            index += 1
            document = {"type": "content_block_start", "index": index, "content_block": body}
            events.append(sse(document))
    events += MESSAGES.events[-2:]
    reply = ScriptedReply([ScriptedRead(2 * i, (one,)) for i, one in enumerate(events)])
    with ScriptedServer(reply) as server:
        client = meter.wrap(SURFACES["messages"].client(server.url, is_async=False))
        with client.messages.stream(model="m", max_tokens=9, messages=MESSAGES_ASKED) as stream:
            assert "".join(stream.text_stream) == "ab"
        client.close()

    kinds = [event.kind for event in phasemeter.timeline(stream).events]
    assert kinds == ["reasoning", "content", "tool_call", "tool_call"]


def test_anthropic_on_vertex_is_timed(meter):
    """Its streams are server-sent events at paths of their own."""
    with ScriptedServer(MESSAGES.reply()) as server:
        client = meter.wrap(
            anthropic.AnthropicVertex(
                region="r", project_id="p", access_token="t", base_url=server.url
            )
        )
        stream = SURFACES["messages"].ask(client)
        list(stream)
        client.close()

    timeline = phasemeter.timeline(stream)
    assert (timeline.dialect, timeline.outcome) == ("anthropic.messages", Outcome.OK)
    assert timeline.model == "m"


def test_anything_else_is_refused_with_what_is_accepted(meter):
    """TypeError names the accepted clients and the way for iterators."""
    with pytest.raises(
        TypeError, match=r"openai or anthropic .* httpx2.*got builtins\.list.*time_stream"
    ):
        meter.wrap([])


def test_the_original_client_still_works_after_the_timed_one_is_gone(meter):
    """The timed client borrows the connections; dropping it closes nothing."""
    with ScriptedServer(chat_reply(first_ms=3, gap_ms=1)) as server:
        client = openai.OpenAI(base_url=server.url, api_key="k")
        stream = client.chat.completions.create(model="m", messages=MESSAGES_ASKED, stream=True)
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
            stream = client.chat.completions.create(model="m", messages=MESSAGES_ASKED, stream=True)
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
        stream = client.chat.completions.create(model="m", messages=MESSAGES_ASKED, stream=True)
        list(stream)
        client.close()

    assert phasemeter.timeline(stream).stamp_source == "recv"
