"""Each dialect over a real connection through a wrapped httpx client: found by its path, and timed."""

from pathlib import Path

import httpx
import pytest

import phasemeter
from phasemeter.core.clock import NS_PER_MS, NS_PER_S
from phasemeter.testing import (
    RecordedCase,
    ScriptedRead,
    ScriptedReply,
    ScriptedServer,
    summary_of,
)

STREAMS = Path(__file__).parents[1] / "streams"
ENDPOINTS = (
    ("/v1/chat/completions", "reasoning-and-answer-in-one-delta"),
    ("/v1/completions", "completions-logprob-token-lists"),
    ("/v1/responses", "responses-summary-then-function-call"),
    ("/v1/messages", "anthropic-thinking-then-signature"),
    ("/api/chat", "ollama-thinking-then-content"),
    ("/api/generate", "ollama-generate-has-response-and-thinking"),
    ("/v1beta/models/g:streamGenerateContent?alt=sse", "gemini-two-candidates"),
    ("/v1beta/models/g:streamGenerateContent", "gemini-json-array-stream"),
    ("/generate_stream", "tgi-no-space-after-data-special-eos"),
    ("/completion", "llamacpp-completion-tokens-and-timings"),
)
STREAMS_UNASKED = [path for path, _ in ENDPOINTS if not path.startswith(("/v1/", "/completion"))]
TOLD = ("outcome", "output_tokens", "input_tokens", "cached_input_tokens", "finish_reason")


def scripted(case):
    reads = [ScriptedRead(t_ns / NS_PER_MS, (data,)) for t_ns, data in case.reads]
    return ScriptedReply(reads, headers=tuple(case.headers.items()))


@pytest.mark.parametrize(("path", "name"), ENDPOINTS)
def test_a_stream_of_each_dialect_is_timed_as_the_server_sent_it(path, name):
    case = RecordedCase.load(STREAMS / f"{name}.json")
    timelines = []
    meter = phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)])

    with ScriptedServer(scripted(case)) as server, meter.wrap(httpx.Client()) as client:
        asked = {} if path in STREAMS_UNASKED else {"stream": True}
        with client.stream("POST", server.url + path, json=asked) as got:
            body = b"".join(got.iter_raw())
        request = server.served[0]

    expected, (timeline,) = case.run(), timelines
    assert body == b"".join(data for _, data in case.reads)
    assert (timeline.dialect, timeline.operation) == (case.dialect.name, case.dialect.operation)
    assert [(one.kind, one.tokens) for one in timeline.events] == [
        (one.kind, one.tokens) for one in expected.events
    ]
    wanted, told = summary_of(expected), summary_of(timeline)
    assert {one: told[one] for one in TOLD} == {one: wanted[one] for one in TOLD}
    assert timeline.server == expected.server
    assert timeline.streamed
    for event, scheduled in zip(timeline.events, expected.events, strict=True):
        # Never before its time, and not much after it: the machine may be busy.
        late_ns = event.t_ns - request.received_ns - scheduled.t_ns
        assert 0 <= late_ns < NS_PER_S
