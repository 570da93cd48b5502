"""Every recorded stream over a real socket to a real client: what is measured is what `replay` says of it.

Served with the recording's own reads and pauses; pauses are kept between 10 and 30 ms, so that a busy
machine does not merge two reads and a silent minute does not take one. Times are compared with those at
which the server really sent. What the machine's load may spoil (a late read, two reads in one) is tried
again, more slowly each time.
"""

import asyncio
import dataclasses
from contextlib import nullcontext
from pathlib import Path

import pytest

import phasemeter
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.meter import StreamEnd
from phasemeter.testing import (
    RecordedCase,
    ScriptedRead,
    ScriptedReply,
    ScriptedServer,
    summary_of,
)
from tests.clients.surfaces import ANTHROPIC, FAMILIES, OPENAI, SURFACES, close_client, http_client

STREAMS = Path(__file__).parents[1] / "streams"
CASES = [RecordedCase.load(path) for path in sorted(STREAMS.glob("*.json"))]
SHORTEST_MS, LONGEST_MS = 10, 30
TOLERANCE_NS = 5 * NS_PER_MS
TRIES = 8
OF_THE_SERVER = ("content-length", "transfer-encoding", "connection")
CLIENTS = {
    "openai.chat": "chat",
    "openai.completions": "completions",
    "openai.responses": "responses",
    "anthropic.messages": "messages",
}
PATHS = {
    "openai.chat": "/v1/chat/completions",
    "openai.completions": "/v1/completions",
    "openai.responses": "/v1/responses",
    "anthropic.messages": "/v1/messages",
    "ollama.chat": "/api/chat",
    "gemini.generate": "/v1beta/models/g:streamGenerateContent",
    "tgi.generate": "/generate_stream",
    "llamacpp.completion": "/completion",
}
# What the official client raises a decoding exception for; these are read with the HTTP client.
UNREADABLE = (
    "deflate-without-zlib-header",
    "invalid-json-in-the-middle",
    "named-error-event-with-plain-text",
    "sse-meta-only-blocks",
)
TIMELESS = (
    "outcome",
    "error",
    "coalesced_events",
    "output_tokens",
    "input_tokens",
    "cached_input_tokens",
    "reasoning_tokens",
    "finish_reason",
    "choices",
)


def script(case, slower):
    """The case's reads for the server, with pauses that many times as long."""
    t_ms, last_ms, reads = 0.0, 0.0, []
    for t_ns, data in case.reads:
        t_ms += slower * min(max(t_ns / NS_PER_MS - last_ms, SHORTEST_MS), LONGEST_MS)
        last_ms = t_ns / NS_PER_MS
        reads.append(ScriptedRead(t_ms, (data,)))
    headers = tuple(one for one in case.headers.items() if one[0] not in OF_THE_SERVER)
    end = "reset" if case.end is StreamEnd.LOST else "eof"
    return ScriptedReply(reads, status=case.status, headers=headers, end=end)


def through_httpx(meter, url, case, *, is_async):
    """Read everything with a wrapped HTTP client."""
    family = list(FAMILIES.values())[-1]
    client = meter.wrap(http_client(family, is_async=is_async, timeout=5))
    body = {"model": "m", "stream": True}
    question = client.stream("POST", url + PATHS[case.dialect.name], json=body)
    lost = pytest.raises(family.TransportError)
    expected = lost if case.end is StreamEnd.LOST else nullcontext()

    async def run():
        async with client, question as got:
            with expected:
                async for _ in got.aiter_raw():
                    pass

    if is_async:
        asyncio.run(run())
        return
    with client, question as got, expected:
        for _ in got.iter_raw():
            pass


def through_its_client(meter, url, case, *, is_async):
    """Read with the official client, to the end or to the error that it raises."""
    surface = SURFACES[CLIENTS[case.dialect.name]]
    told = tuple(one.APIError for one in (OPENAI, ANTHROPIC) if one is not None)
    lost = tuple(one.TransportError for one in FAMILIES.values())

    async def run():
        client = meter.wrap(surface.client(url, is_async=True))
        try:
            async for _ in await surface.ask(client):
                pass
        except (*told, *lost):
            pass
        await close_client(client)

    if is_async:
        asyncio.run(run())
        return
    client = meter.wrap(surface.client(url, is_async=False))
    try:
        for _ in surface.ask(client):
            pass
    except (*told, *lost):
        pass
    close_client(client)


def measure(case, read, *, is_async, slower):
    """(what was measured, what the server's own times make of the same reads)."""
    timelines = []
    meter = phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)])
    with ScriptedServer(script(case, slower)) as server:
        read(meter, server.url, case, is_async=is_async)
        meter.close()
    (measured,) = timelines
    served = server.served[0]
    reads = tuple((t_ns, data) for t_ns, (_, data) in zip(served.sent_ns, case.reads, strict=False))
    real = dataclasses.replace(
        case, reads=reads, headers_ns=served.headers_ns, end_ns=reads[-1][0] if reads else 0
    )
    return measured, real.run()


def timeless(timeline):
    told = summary_of(timeline)
    kinds = [(event.kind, event.tokens) for event in timeline.events]
    return {name: told[name] for name in TIMELESS}, kinds, dict(timeline.server)


def instants(timeline):
    return [timeline.headers_ns, timeline.first_event_ns, *(e.t_ns for e in timeline.events)]


def differences_of(measured, real):
    """What is not as it should be, in words; a busy machine's doing and ours alike."""
    if timeless(measured) != timeless(real):
        return f"{timeless(measured)} where replay says {timeless(real)}"
    late_ns = [
        (a is None) != (b is None) or abs((a or 0) - (b or 0)) > TOLERANCE_NS
        for a, b in zip(instants(measured), instants(real), strict=True)
    ]
    return f"times {instants(measured)}, sent {instants(real)}" if any(late_ns) else ""


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_recorded_stream_is_measured_over_a_socket_as_replay_measures_it(case, is_async):
    read = through_httpx
    if CLIENTS.get(case.dialect.name) in SURFACES and case.name not in UNREADABLE:
        read = through_its_client
    found = ""
    for slower in range(1, TRIES + 1):
        measured, real = measure(case, read, is_async=is_async, slower=slower)
        assert measured.stamp_source == "recv"
        assert measured.dialect == case.dialect.name
        found = differences_of(measured, real)
        if not found:
            return
    pytest.fail(found)
