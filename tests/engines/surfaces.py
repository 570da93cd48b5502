"""The ways of asking vLLM through the official clients, and what an application is told by each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

import phasemeter
from phasemeter.core.timeline import Timeline
from tests.engines.vllm_server import MODEL, Vllm


@dataclass(frozen=True)
class Told:
    """What the client library handed to the application.

    Attributes:
        pieces: Texts, one a chunk with text in it.
        input_tokens: Of the usage, the cached part included.
        cached_tokens: Of the usage.
        output_tokens: Of the usage.
    """

    pieces: list[str]
    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Surface:
    """One interface.

    Attributes:
        name: Short name.
        dialect: The dialect it is recorded as.
        create: Sends a request with a client.
        told: Reads what came, from the chunks or from the one answer.
    """

    name: str
    dialect: str
    create: Callable[..., Any]
    told: Callable[[Sequence[Any]], Told]

    def __str__(self) -> str:
        return self.name


def _chat(client, prompt, tokens, *, stream, **more):
    options = {"stream_options": {"include_usage": True}} if stream else {}
    return client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=tokens,
        stream=stream,
        **{**options, **more},
    )


def _completions(client, prompt, tokens, *, stream, **more):
    options = {"stream_options": {"include_usage": True}} if stream else {}
    return client.completions.create(
        model=MODEL, prompt=prompt, max_tokens=tokens, stream=stream, **{**options, **more}
    )


def _responses(client, prompt, tokens, *, stream, **more):
    return client.responses.create(
        model=MODEL, input=prompt, max_output_tokens=tokens, stream=stream, **more
    )


def _messages(client, prompt, tokens, *, stream, **more):
    return client.messages.create(
        model=MODEL,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=tokens,
        stream=stream,
        **more,
    )


def _told_by_choices(chunks):
    texts = []
    for chunk in chunks:
        for choice in chunk.choices:
            part = getattr(choice, "delta", None) or getattr(choice, "message", None)
            texts.append(choice.text if part is None else part.content)
    usage = chunks[-1].usage
    cached = usage.prompt_tokens_details.cached_tokens
    return Told(list(filter(None, texts)), usage.prompt_tokens, cached, usage.completion_tokens)


def _told_by_responses(events):
    last = getattr(events[-1], "response", events[-1])
    deltas = [event.delta for event in events if event_type(event) == "response.output_text.delta"]
    usage = last.usage
    cached = usage.input_tokens_details.cached_tokens
    pieces = deltas if len(events) > 1 else [last.output_text]
    return Told(list(filter(None, pieces)), usage.input_tokens, cached, usage.output_tokens)


def _told_by_messages(events):
    if len(events) == 1:
        pieces, usage = [block.text for block in events[0].content], events[0].usage
    else:
        pieces = [
            event.delta.text for event in events if event_type(event) == "content_block_delta"
        ]
        usage = next(event.usage for event in events if event_type(event) == "message_delta")
    # This interface counts what is read from the cache, and written to it, beside `input_tokens`.
    cached = usage.cache_read_input_tokens or 0
    whole = usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0)
    return Told(list(filter(None, pieces)), whole, cached, usage.output_tokens)


def event_type(event):
    """Return the type of an event; None for what has none."""
    return getattr(event, "type", None)


CHAT = Surface("chat", "openai.chat", _chat, _told_by_choices)
COMPLETIONS = Surface("completions", "openai.completions", _completions, _told_by_choices)
RESPONSES = Surface("responses", "openai.responses", _responses, _told_by_responses)
MESSAGES = Surface("messages", "anthropic.messages", _messages, _told_by_messages)
SURFACES = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)


def client_for(surface: Surface, server: Vllm, meter: phasemeter.Meter, *, asynchronous: bool):
    """Return a timed official client."""
    if surface is MESSAGES:
        cls = anthropic.AsyncAnthropic if asynchronous else anthropic.Anthropic
        return meter.wrap(cls(base_url=server.url, api_key="none", max_retries=0, timeout=60))
    cls = openai.AsyncOpenAI if asynchronous else openai.OpenAI
    return meter.wrap(cls(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60))


def ask(
    surface: Surface,
    server: Vllm,
    prompt: str,
    tokens: int,
    *,
    stream: bool = True,
    asynchronous: bool = False,
    **more: Any,
) -> tuple[Told, Timeline]:
    """Ask once with a client of its own; return what the application and what the meter saw."""
    timelines: list[Timeline] = []
    meter = phasemeter.Meter([phasemeter.CallbackSink(timelines.append)])
    client = client_for(surface, server, meter, asynchronous=asynchronous)

    async def in_a_loop():
        async with client:
            answer = await surface.create(client, prompt, tokens, stream=stream, **more)
            return [chunk async for chunk in answer] if stream else [answer]

    if asynchronous:
        chunks = asyncio.run(in_a_loop())
    else:
        with client:
            answer = surface.create(client, prompt, tokens, stream=stream, **more)
            chunks = list(answer) if stream else [answer]
    meter.close()
    (timeline,) = timelines
    return surface.told(chunks), timeline
