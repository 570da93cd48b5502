"""Each surface, blocking and async: it gives what the bare client gives, and is timed."""

import asyncio

import pytest

import phasemeter
from phasemeter.core.timeline import Outcome
from phasemeter.metrics import E2E, TTFT
from phasemeter.testing import ScriptedServer
from tests.clients.surfaces import MODEL, SURFACES, close_client
from tests.clients.wires import TOKENS

TOLERANCE_NS = 1_000_000_000  # the machine may be loaded; order and identity are what is shown
WHOLE = [surface for surface in SURFACES.values() if surface.whole is not None]


@pytest.fixture
def timelines():
    return []


@pytest.fixture
def meter(timelines):
    return phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)])


def plain(item):
    """An item in a form that can be compared: some share a snapshot that grows."""
    return type(item), repr(item)


def take_all(surface, server, meter, *, is_async):
    """Ask once and read to the end, timed unless `meter` is None; (stream, items, client's type)."""

    def wrapped(client):
        return client if meter is None or surface.pulled else meter.wrap(client)

    def pulled(stream):
        return meter.time_stream(stream) if meter is not None and surface.pulled else stream

    if not is_async:
        client = wrapped(surface.client(server.url, is_async=False))
        stream = pulled(surface.ask(client))
        items = [plain(item) for item in stream]
        close_client(client)
        return stream, items, type(client)

    async def run():
        client = wrapped(surface.client(server.url, is_async=True))
        stream = pulled(await surface.ask(client))
        items = [plain(item) async for item in stream]
        await close_client(client)
        return stream, items, type(client)

    return asyncio.run(run())


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES)
def test_a_timed_stream_is_the_bare_one_and_agrees_with_the_servers_send_log(
    surface, is_async, meter, timelines
):
    with ScriptedServer(surface.wire.reply()) as server:
        bare, expected, client_type = take_all(surface, server, None, is_async=is_async)
        stream, items, timed_client_type = take_all(surface, server, meter, is_async=is_async)
        served = server.served[-1]

    assert items == expected
    assert timed_client_type is client_type
    if not surface.pulled:
        assert type(stream) is type(bare)
    timeline = phasemeter.timeline(stream)
    assert timelines == [timeline]
    assert timeline.outcome is Outcome.OK
    assert timeline.dialect == ("iterator" if surface.pulled else surface.wire.dialect)
    assert timeline.stamp_source == ("pull" if surface.pulled else "recv")
    assert timeline.streamed
    assert [event.kind for event in timeline.events] == ["content"] * TOKENS
    sent_ns = served.sent_ns[surface.wire.first :]
    for event, its_sent_ns in zip(timeline.events, sent_ns, strict=False):
        assert -5_000_000 < event.t_ns - its_sent_ns < TOLERANCE_NS
    if not surface.pulled:
        assert timeline.model == MODEL
        assert timeline.response_model == "scripted"
        assert (
            timeline.started_ns
            <= timeline.connected_ns
            <= timeline.sent_ns
            <= timeline.headers_ns
            <= timeline.first_event_ns
            <= timeline.first_token_ns
            <= timeline.last_token_ns
            <= timeline.ended_ns
        )


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("surface", WHOLE, ids=lambda surface: surface.name)
def test_a_call_that_is_not_streamed_has_an_end_to_end_time_and_no_phases(
    surface, is_async, meter, timelines
):
    async def run(server):
        client = meter.wrap(surface.client(server.url, is_async=True))
        answer = await surface.whole(client)
        await close_client(client)
        return answer

    with ScriptedServer(surface.wire.not_streamed()) as server:
        if is_async:
            answer = asyncio.run(run(server))
        else:
            client = meter.wrap(surface.client(server.url, is_async=False))
            answer = surface.whole(client)
            close_client(client)

    (timeline,) = timelines
    assert timeline.outcome is Outcome.OK
    assert timeline.streamed is False
    assert list(E2E.samples(timeline))
    assert not list(TTFT.samples(timeline))
    assert timeline.usage.output_tokens == surface.wire.whole["usage"].get(
        "output_tokens", surface.wire.whole["usage"].get("completion_tokens")
    )
    if surface.name.endswith("-raw") or surface.name in ("httpx", "httpx2"):
        assert phasemeter.timeline(answer) is timeline
    else:
        with pytest.raises(LookupError, match="was not timed"):  # a parsed model has no way back
            phasemeter.timeline(answer)
