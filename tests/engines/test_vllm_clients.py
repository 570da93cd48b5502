"""Through the official clients, a real vLLM: what we record is what it says of itself."""

import asyncio
import uuid

import openai
import pytest

import phasemeter
from phasemeter.core.timeline import Outcome
from phasemeter.load.prompts import words
from tests.engines.surfaces import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    SURFACES,
    ask,
    client_for,
)
from tests.engines.vllm_server import MODEL

# The first test waits for the server.
pytestmark = [pytest.mark.engine, pytest.mark.timeout(500)]

TOKENS = 24
# A loaded machine may hold either process up; a wrong stamp is off by far more than a hiccup.
SLACK_MS = 1500


def prompt(number_of_words=40):
    """Return a text that the server has not seen."""
    return words(number_of_words, uuid.uuid4().hex)


def gained(before, after, name):
    return round(after[name] - before[name])


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("surface", SURFACES, ids=str)
def test_token_counts_are_those_of_the_usage_and_of_the_server(vllm, surface, stream, asynchronous):
    before = vllm.counters()

    told, timeline = ask(surface, vllm, prompt(), TOKENS, stream=stream, asynchronous=asynchronous)

    after = vllm.counters()
    assert timeline.dialect == surface.dialect
    assert timeline.outcome is Outcome.OK
    assert timeline.streamed is stream
    assert timeline.stamp_source == "recv"
    assert timeline.model == timeline.response_model == MODEL
    assert (
        timeline.usage.input_tokens
        == told.input_tokens
        == gained(before, after, "prompt_tokens_total")
    )
    assert timeline.usage.output_tokens == told.output_tokens == TOKENS
    assert gained(before, after, "generation_tokens_total") == TOKENS
    assert "".join(told.pieces)
    if stream:
        # One event a chunk with text, as the application saw them.
        assert len(timeline.events) == len(told.pieces)
        assert sum(1 for _ in timeline.gaps()) + timeline.coalesced_events == len(told.pieces) - 1


def chat_helper(client):
    with client.chat.completions.stream(
        model=MODEL,
        messages=[{"role": "user", "content": prompt()}],
        max_tokens=TOKENS,
        stream_options={"include_usage": True},
    ) as stream:
        assert list(stream)
        usage = stream.current_completion_snapshot.usage  # cut off by length: no final one
    return usage.prompt_tokens, usage.completion_tokens


def responses_helper(client):
    with client.responses.stream(model=MODEL, input=prompt(), max_output_tokens=TOKENS) as stream:
        assert list(stream)
        usage = stream.get_final_response().usage
    return usage.input_tokens, usage.output_tokens


def messages_helper(client):
    with client.messages.stream(
        model=MODEL, messages=[{"role": "user", "content": prompt()}], max_tokens=TOKENS
    ) as stream:
        assert "".join(stream.text_stream)
        usage = stream.get_final_message().usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return usage.input_tokens + cached, usage.output_tokens


@pytest.mark.parametrize(
    ("surface", "helper"),
    [(CHAT, chat_helper), (RESPONSES, responses_helper), (MESSAGES, messages_helper)],
    ids=["chat", "responses", "messages"],
)
def test_stream_helpers_of_the_client_libraries_are_counted_the_same(vllm, surface, helper):
    timelines = []
    meter = phasemeter.Meter([phasemeter.CallbackSink(timelines.append)])

    with client_for(surface, vllm, meter, asynchronous=False) as client:
        told = helper(client)
    meter.close()

    (timeline,) = timelines
    assert timeline.outcome is Outcome.OK
    assert (timeline.usage.input_tokens, timeline.usage.output_tokens) == told
    assert told[1] == TOKENS
    assert 1 <= len(timeline.events) <= TOKENS


@pytest.mark.parametrize("surface", [CHAT, COMPLETIONS, RESPONSES], ids=str)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_phases_agree_with_the_times_that_the_server_tells(vllm, surface, asynchronous):
    _, timeline = ask(surface, vllm, prompt(200), 60, asynchronous=asynchronous)

    told = timeline.server
    assert set(told) >= {"time_to_first_token_ms", "generation_time_ms", "queue_time_ms"}
    server_prefill_ms = told["queue_time_ms"] + told["time_to_first_token_ms"]
    assert timeline.prefill_s is not None
    assert timeline.decode_s is not None
    # The client's prefill span holds the server's, and little more on one machine.
    assert server_prefill_ms <= timeline.prefill_s * 1e3 <= server_prefill_ms + SLACK_MS
    assert timeline.decode_s * 1e3 == pytest.approx(told["generation_time_ms"], abs=SLACK_MS)
    # The server's engine loop and its HTTP process take turns, so both may have merged tokens.
    assert timeline.decode_s > 0.3 * told["generation_time_ms"] / 1e3


@pytest.mark.parametrize(
    "extra_body",
    [
        {"return_token_ids": True},
        {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_the_tokens_of_each_event_add_up_to_the_usage(vllm, extra_body):
    _, timeline = ask(COMPLETIONS, vllm, prompt(), TOKENS, extra_body=extra_body)

    counts = [event.tokens for event in timeline.events]
    assert None not in counts
    assert sum(counts) == timeline.usage.output_tokens == TOKENS


@pytest.mark.parametrize("surface", SURFACES, ids=str)
def test_a_prompt_from_the_cache_is_seen(vllm, surface):
    same = prompt(200)
    before = vllm.counters()

    first, cold = ask(surface, vllm, same, 8)
    second, warm = ask(surface, vllm, same, 8)

    assert cold.usage.cached_input_tokens == first.cached_tokens == 0
    assert warm.usage.cached_input_tokens == second.cached_tokens > 500
    assert warm.usage.input_tokens == second.input_tokens == first.input_tokens
    hits = gained(before, vllm.counters(), "prefix_cache_hits_total")
    assert hits == warm.usage.cached_input_tokens


def test_streams_at_the_same_time_are_kept_apart(vllm):
    timelines = []
    meter = phasemeter.Meter([phasemeter.CallbackSink(timelines.append)])
    before = vllm.counters()

    async def one(client, number):
        answer = await CHAT.create(client, prompt(), 10 + number, stream=True)
        return CHAT.told([chunk async for chunk in answer]).output_tokens

    async def all_of_them():
        async with client_for(CHAT, vllm, meter, asynchronous=True) as client:
            return await asyncio.gather(*(one(client, number) for number in range(12)))

    told = asyncio.run(all_of_them())
    meter.close()

    assert sorted(told) == list(range(10, 22))
    assert sorted(timeline.usage.output_tokens for timeline in timelines) == sorted(told)
    assert gained(before, vllm.counters(), "generation_tokens_total") == sum(told)


def test_a_stream_that_is_closed_early_ends_on_the_server_too(vllm, eventually):
    timelines = []
    meter = phasemeter.Meter([phasemeter.CallbackSink(timelines.append)])
    before = vllm.counters()

    with client_for(CHAT, vllm, meter, asynchronous=False) as client:
        with CHAT.create(client, prompt(), 3000, stream=True) as stream:
            for _ in zip(range(5), stream, strict=False):
                pass
        (timeline,) = timelines
        eventually(lambda: vllm.counters()["num_requests_running"] == 0)
    meter.close()

    assert timeline.outcome is Outcome.CANCELLED
    assert timeline.error_type is None
    assert 1 <= len(timeline.events) < 1500
    assert gained(before, vllm.counters(), "generation_tokens_total") < 1500


def test_a_prompt_that_is_too_long_is_the_clients_own_exception(vllm):
    timelines = []
    meter = phasemeter.Meter([phasemeter.CallbackSink(timelines.append)])

    with (
        client_for(CHAT, vllm, meter, asynchronous=False) as client,
        pytest.raises(openai.BadRequestError, match="context length"),
    ):
        CHAT.create(client, prompt(1000), 8, stream=True)
    meter.close()

    (timeline,) = timelines
    assert timeline.outcome is Outcome.ERROR
    assert timeline.http_status == 400
    assert timeline.events == ()
