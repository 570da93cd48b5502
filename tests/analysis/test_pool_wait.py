"""Requests that wait in an application's own connection pool: seen in its records, and not without a wait."""

import asyncio

import httpx
import pytest

import phasemeter
from phasemeter.analysis.records import load_run
from phasemeter.analysis.summary import summarise
from phasemeter.testing import ScriptedReply, ScriptedServer, chat_events

ANSWER = ScriptedReply.of_events(chat_events(first_ms=60, gap_ms=10))
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}


async def ask_at_once(url, path, requests, connections):
    meter = phasemeter.Meter(sinks=[phasemeter.RecordSink(path)])
    limits = httpx.Limits(max_connections=connections)
    async with meter.wrap(httpx.AsyncClient(base_url=url, limits=limits, timeout=30)) as client:

        async def ask():
            async with client.stream("POST", "/v1/chat/completions", json=BODY) as response:
                async for _ in response.aiter_bytes():
                    pass

        await asyncio.gather(*(ask() for _ in range(requests)))
    meter.close()
    return summarise(load_run(path))


@pytest.mark.parametrize(("connections", "doubted"), [(1, True), (4, False)])
def test_a_pool_that_is_too_small_is_told(tmp_path, connections, doubted):
    """Four requests at once of 130 ms each: over one connection the last waits for three."""
    with ScriptedServer(ANSWER) as server:
        summary = asyncio.run(ask_at_once(server.url, tmp_path / "records.jsonl", 4, connections))

    assert summary["requests"]["ok"] == 4
    told = [one for one in summary["validity"]["reasons"] if "free connection" in one]
    assert bool(told) == doubted
    if doubted:
        assert summary["health"]["lags"]["connection_wait"]["max"] > 200
