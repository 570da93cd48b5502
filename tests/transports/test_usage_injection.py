"""Streams are asked for their token counts; the application sees no difference."""

import asyncio
import gzip
import json
from importlib import import_module
from importlib.util import find_spec

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phasemeter
from phasemeter.core.timeline import Outcome
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events
from phasemeter.transports import usage_injection
from phasemeter.transports.usage_injection import asking_body

EVENTS = chat_events(first_ms=2, gap_ms=1)
ASKED = ScriptedReply.of_events(EVENTS)
UNASKED_EVENTS = [one for one in EVENTS if '"usage"' not in one[1]]
UNASKED = ScriptedReply.of_events(UNASKED_EVENTS)
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
REFUSAL = ScriptedReply(
    [
        ScriptedRead(
            0, (b'{"error": {"message": "Unrecognized request argument: stream_options"}}',)
        )
    ],
    status=400,
    headers=(("content-type", "application/json"),),
    framing="length",
)


@pytest.fixture(autouse=True)
def nobody_has_refused(monkeypatch):
    monkeypatch.setattr(usage_injection, "_refusing", set())


@pytest.fixture
def timelines():
    return []


@pytest.fixture
def meter(timelines):
    return phasemeter.Meter([phasemeter.CallbackSink(timelines.append)], inject_usage=True)


def bytes_of(events):
    return b"".join(f"data: {data}\n\n".encode() for _, data in events)


def header_of(served, name):
    for line in served.head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip()
    return None


def sync_bytes(family):
    def fetch(meter, url, body=BODY, **options):
        with meter.wrap(family.Client()) as client:
            url += "/v1/chat/completions"
            with client.stream("POST", url, json=body, **options) as response:
                return b"".join(response.iter_raw()), response

    return fetch


def async_bytes(family):
    def fetch(meter, url, body=BODY, **options):
        async def go():
            async with meter.wrap(family.AsyncClient()) as client:
                path = url + "/v1/chat/completions"
                async with client.stream("POST", path, json=body, **options) as response:
                    return b"".join([chunk async for chunk in response.aiter_raw()]), response

        return asyncio.run(go())

    return fetch


FAMILIES = {name: import_module(name) for name in ("httpx", "httpx2") if find_spec(name)}
LIBRARY = list(FAMILIES.values())[-1]
FETCHES = {
    f"{kind}{name}": fetch_with(family)
    for name, family in FAMILIES.items()
    for kind, fetch_with in (("", sync_bytes), ("async ", async_bytes))
}
every_fetch = pytest.mark.parametrize("fetch", FETCHES.values(), ids=FETCHES)


@every_fetch
def test_the_server_is_asked_and_the_application_sees_no_difference(fetch, meter, timelines):
    """Bytes as from a server that was not asked; the Timeline has the counts."""
    with ScriptedServer(ASKED) as server:
        got, response = fetch(meter, server.url)
        (served,) = server.served

    assert got == bytes_of(UNASKED_EVENTS)
    assert json.loads(served.body) == {**BODY, "stream_options": {"include_usage": True}}
    assert int(header_of(served, b"content-length")) == len(served.body)
    assert header_of(served, b"accept-encoding") == b"identity"
    assert json.loads(response.request.content) == BODY
    (timeline,) = timelines
    assert phasemeter.timeline(response) is timeline
    assert (timeline.usage.input_tokens, timeline.usage.output_tokens) == (5, 8)
    assert timeline.stamp_source == "recv"


@every_fetch
def test_a_body_of_known_length_loses_its_length(fetch, meter):
    """What is passed on is shorter than what the server announced."""
    whole = ScriptedReply(
        [ScriptedRead(0, (bytes_of(EVENTS),))],
        headers=(("content-type", "text/event-stream"), ("x-request-id", "r")),
        framing="length",
    )
    with ScriptedServer(whole) as server:
        got, response = fetch(meter, server.url)

    assert got == bytes_of(UNASKED_EVENTS)
    assert "content-length" not in response.headers
    assert response.headers["x-request-id"] == "r"


@every_fetch
def test_a_server_that_encodes_all_the_same_is_left_alone(fetch, meter, timelines):
    body = gzip.compress(bytes_of(EVENTS))
    encoded = ScriptedReply(
        [ScriptedRead(0, (body,))],
        headers=(("content-type", "text/event-stream"), ("content-encoding", "gzip")),
    )
    with ScriptedServer(encoded) as server:
        got, _ = fetch(meter, server.url)

    assert got == body
    assert timelines[0].usage.output_tokens == 8


@every_fetch
def test_a_server_that_refuses_gets_the_original_request(fetch, meter, timelines, caplog):
    """The application has its answer, there is one record, and the server is not asked again."""
    with ScriptedServer(REFUSAL, UNASKED) as server:
        first, _ = fetch(meter, server.url)
        second, _ = fetch(meter, server.url)
        bodies = [json.loads(served.body) for served in server.served]
        encodings = [header_of(served, b"accept-encoding") for served in server.served]

    assert first == second == bytes_of(UNASKED_EVENTS)
    assert bodies == [{**BODY, "stream_options": {"include_usage": True}}, BODY, BODY]
    assert b"gzip" in encodings[1]
    assert [one.outcome for one in timelines] == [Outcome.OK, Outcome.OK]
    assert timelines[0].usage.output_tokens is None
    assert sum("is not asked again" in record.message for record in caplog.records) == 1


@every_fetch
def test_an_error_that_is_the_applications_own_is_given_back(fetch, meter, timelines):
    """The second answer is the one it would have got; nothing is concluded from it."""
    own = ScriptedReply(
        [ScriptedRead(0, (b'{"error": {"message": "no such model"}}',))], status=400
    )
    with ScriptedServer(REFUSAL, own, ASKED) as server:
        got, response = fetch(meter, server.url)
        fetch(meter, server.url)
        asked = [b"include_usage" in served.body for served in server.served]

    assert (response.status_code, got) == (400, b'{"error": {"message": "no such model"}}')
    assert asked == [True, False, True]
    assert [one.outcome for one in timelines] == [Outcome.ERROR, Outcome.OK]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_half_an_event_comes_before_the_error_that_broke_it_off(family, meter, timelines):
    """As it does without us: first the bytes, then the error."""

    class Broken(family.SyncByteStream):
        def __iter__(self):
            yield b"data: {}\n\ndata: {"
            raise family.ReadError("gone")

    client = meter.wrap(family.Client(transport=Serving(family, Broken)))
    with client.stream("POST", "http://h/chat/completions", json=BODY) as response:
        chunks = response.iter_raw()
        assert (next(chunks), next(chunks)) == (b"data: {}\n\n", b"data: {")
        with pytest.raises(family.ReadError, match="gone"):
            next(chunks)

    assert timelines[0].error_type.endswith("ReadError")


def Serving(family, make_stream):
    class Transport(family.BaseTransport):
        def handle_request(self, request):
            assert b"include_usage" in request.content
            return family.Response(200, stream=make_stream())

    return Transport()


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_responses_made_in_memory_are_filtered_too(family, meter, timelines):
    """A mock transport of a test suite."""

    def answer(request):
        return family.Response(200, content=bytes_of(EVENTS))

    client = meter.wrap(family.Client(transport=family.MockTransport(answer)))
    response = client.post("http://h/chat/completions", json=BODY)

    assert response.content == bytes_of(UNASKED_EVENTS)
    assert timelines[0].usage.output_tokens == 8


def test_the_finish_chunk_does_not_wait_for_the_usage(meter):
    """The server says the usage never; the event before it is there."""
    finish = next(at for at, (_, data) in enumerate(EVENTS) if '"finish_reason": "stop"' in data)
    halting = ScriptedReply.of_events(EVENTS[: finish + 1], end="hang")
    with (
        ScriptedServer(halting) as server,
        meter.wrap(openai.OpenAI(base_url=server.url, api_key="k", max_retries=0)) as client,
    ):
        stream = client.chat.completions.create(**BODY)
        for chunk in stream:
            if chunk.choices[0].finish_reason == "stop":
                break  # without the filter's help this would block
        stream.close()


def sync_openai(meter, url):
    return meter.wrap(openai.OpenAI(base_url=url, api_key="k", max_retries=0))


def create(client):
    return [one.model_dump() for one in client.chat.completions.create(**BODY)]


def raw_create(client):
    response = client.chat.completions.with_raw_response.create(**BODY)
    return [one.model_dump() for one in response.parse()]


def streaming_create(client):
    with client.chat.completions.with_streaming_response.create(**BODY) as response:
        return list(response.iter_lines())


def helper(client):
    if not hasattr(client.chat.completions, "stream"):
        pytest.skip("this version of openai has no such helper")
    with client.chat.completions.stream(model="m", messages=BODY["messages"]) as stream:
        return [event.type for event in stream]


def legacy(client):
    return [
        one.model_dump() for one in client.completions.create(model="m", prompt="p", stream=True)
    ]


@pytest.mark.parametrize("use", [create, raw_create, streaming_create, helper, legacy])
def test_every_streaming_surface_of_openai_sees_what_an_unasked_server_says(use, meter, timelines):
    """Parsed chunks, raw responses, lines and helper events."""
    plain = phasemeter.Meter([], inject_usage=False)
    with ScriptedServer(UNASKED) as server, sync_openai(plain, server.url) as client:
        expected = use(client)
    with ScriptedServer(ASKED) as server, sync_openai(meter, server.url) as client:
        got = use(client)
        assert b"include_usage" in server.served[0].body

    assert got == expected
    assert timelines[0].usage.output_tokens == 8


def test_the_async_client_of_openai_too(meter, timelines):
    async def go(url):
        raw = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
        async with meter.wrap(raw) as client:
            stream = await client.chat.completions.create(**BODY)
            return [chunk async for chunk in stream]

    with ScriptedServer(ASKED) as server:
        chunks = asyncio.run(go(server.url))

    assert all(chunk.choices for chunk in chunks)
    assert timelines[0].usage.output_tokens == 8


@pytest.mark.parametrize("choice", [True, False, None])
def test_an_explicit_choice_stands(choice, meter):
    """Of the user's; the chunk it asks for is shown."""
    body = {**BODY, "stream_options": {"include_usage": choice}}
    with ScriptedServer(ASKED) as server, meter.wrap(LIBRARY.Client()) as client:
        response = client.post(server.url + "/chat/completions", json=body)

    assert json.loads(server.served[0].body) == body
    assert response.content == bytes_of(EVENTS)


NOT_ASKED = {
    "not streamed": ("/chat/completions", {"json": {**BODY, "stream": False}}),
    "Responses": ("/responses", {"json": {"model": "m", "input": "i", "stream": True}}),
    "Anthropic": ("/v1/messages", {"json": BODY}),
    "another path": ("/embeddings", {"json": {"model": "m", "stream": True}}),
    "stream_options null": ("/chat/completions", {"json": {**BODY, "stream_options": None}}),
    "a streamed body": ("/chat/completions", {"content": iter([json.dumps(BODY).encode()])}),
    "a signed body": (
        "/chat/completions",
        {"json": BODY, "headers": {"authorization": "AWS4-HMAC-SHA256 Credential=c"}},
    ),
    "a body with a digest": (
        "/chat/completions",
        {"json": BODY, "headers": {"content-digest": "sha-256=:x:"}},
    ),
    "no JSON": ("/chat/completions", {"content": b"{"}),
}


@pytest.mark.parametrize(("path", "options"), NOT_ASKED.values(), ids=NOT_ASKED)
def test_other_requests_go_out_as_they_are(path, options, meter, monkeypatch):
    """Byte for byte, with the user's accept-encoding."""
    seen = []

    def answer(request):
        seen.append((request.read(), request.headers["accept-encoding"]))
        return LIBRARY.Response(200, content=bytes_of(EVENTS))

    client = meter.wrap(LIBRARY.Client(transport=LIBRARY.MockTransport(answer)))
    response = client.post("http://h" + path, **options)

    assert response.content == bytes_of(EVENTS)
    ((body, encoding),) = seen
    assert b"include_usage" not in body
    assert encoding != "identity"


def test_a_client_may_be_wrapped_for_it_later(timelines):
    """The Meter's own setting is only a default; asking later times once, not twice."""
    meter = phasemeter.Meter([phasemeter.CallbackSink(timelines.append)], inject_usage=False)
    with ScriptedServer(ASKED) as server, LIBRARY.Client() as client:
        timed = meter.wrap(client)
        assert meter.wrap(timed) is timed
        asking = meter.wrap(timed, inject_usage=True)
        assert asking is not timed
        assert meter.wrap(asking) is asking
        assert meter.wrap(asking, inject_usage=True) is asking
        asking.post(server.url + "/chat/completions", json=BODY)
        timed.post(server.url + "/chat/completions", json=BODY)

    assert ["include_usage" in str(served.body) for served in server.served] == [True, False]
    assert len(timelines) == 2


texts = st.text(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.dictionaries(texts, values, max_size=4),
    st.none() | st.dictionaries(texts, values, max_size=2),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_everything_else_in_a_body_stays_as_it_is_written(others, options, indent, ascii_only):
    """One insertion; the document is the old one and the option."""
    document = {**others, "stream": True}
    if options is not None:
        document["stream_options"] = options
    text = f" {json.dumps(document, indent=indent, ensure_ascii=ascii_only)}\n"
    asking = asking_body(text)

    told = {**(options or {}), "include_usage": True}
    assert json.loads(asking) == {**document, "stream_options": told}
    inserted = len(asking) - len(text)
    at = next(i for i in range(len(asking)) if asking[:i] + asking[i + inserted :] == text)
    assert '"include_usage":true' in asking[at - 1 : at + inserted + 1]


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        '{"stream": false}',
        '{"stream": 1}',
        '{"stream": "true"}',
        '{"stream": true, "stream": true}',
        '{"stream": true, "stream_options": []}',
        '{"stream": true, "stream_options": {"include_usage": null}}',
        '{"stream": true, "stream_options": {}, "stream_options": {}}',
        '{"inner": {"stream": true}}',
    ],
)
def test_bodies_that_are_not_to_be_changed(body):
    assert asking_body(body) is None


@pytest.mark.parametrize(
    "body", ["", "[]", "{", '{"stream": true', '{"stream": true} x', '{"a" 1}']
)
def test_bodies_that_are_no_json_object(body):
    with pytest.raises(ValueError, match=r"."):
        asking_body(body)
