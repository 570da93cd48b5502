"""OpenAI chat completions, as spoken by OpenAI, Azure, vLLM, SGLang, llama.cpp and many gateways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from phasemeter.core.decoding import DecodedEvent, Decoder, TokenPart
from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import Usage
from phasemeter.core.token_events import TokenKind
from phasemeter.dialects.document import count_of, has_text, object_in, open_frame
from phasemeter.dialects.openai_usage import (
    find_usage,
    generated_tokens,
    read_server_timings,
    read_usage,
)

_REASONING_FIELDS = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "reasoning_text",
    "thinking",
    "thinking_blocks",
)
_PLAIN_FIELDS = frozenset(("role", "content"))


class ReadChoice(Protocol):
    """Finds the kinds of generated text in one choice of a document."""

    def __call__(self, choice: Mapping[str, object], *, whole: bool) -> list[TokenKind]: ...  # noqa: D102


class OpenAIChat:
    """`POST .../chat/completions` with `stream: true`."""

    name = "openai.chat"
    operation = "chat"
    path_suffixes = ("/chat/completions",)
    stream_suffixes = ()
    json_lines = False
    varying = Varying(
        text_keys=(
            "content",
            "reasoning_content",
            "reasoning",
            "refusal",
            "arguments",
            "obfuscation",
        ),
        number_keys=("total_tokens",),
        running_count_key="completion_tokens",
    )

    def decoder(self) -> Decoder:
        """Return a decoder, which remembers whether text came in deltas."""
        return _ChatDecoder()


class _ChatDecoder:
    def __init__(self) -> None:
        self._delta_seen = False

    def decode(self, frame: Frame) -> DecodedEvent:
        return decode_choices(frame, self._read_choice)

    def _read_choice(self, choice: Mapping[str, object], *, whole: bool) -> list[TokenKind]:
        # A whole message after deltas repeats what they brought, whatever the document calls itself.
        kinds = read_choice(choice, whole=whole and not self._delta_seen)
        self._delta_seen = self._delta_seen or (
            bool(kinds) and isinstance(choice.get("delta"), dict)
        )
        return kinds


def decode_choices(frame: Frame, read_choice: ReadChoice) -> DecodedEvent:
    """Decode a chunk with a `choices` list; `read_choice` finds the text in one choice."""
    document, event = open_frame(frame)
    if document is None:
        return event
    whole = not str(document.get("object", "")).endswith(".chunk")
    choices = document.get("choices")
    parts: list[TokenPart] = []
    indexes: list[int] = []
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        indexes.append(index)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            event.finish_reason = reason
        for kind in read_choice(choice, whole=whole):
            parts.append(TokenPart(kind, index, count_tokens(choice)))  # noqa: PERF401
    event.parts = parts
    event.choices = indexes
    if '"usage"' in frame.data or "timings" in document or "metrics" in document:
        _read_counts(document, event)
    return event


def count_tokens(choice: Mapping[str, object]) -> int | None:
    """Return how many tokens a choice's event holds, by token ids or log probabilities."""
    ids = choice.get("token_ids")
    if isinstance(ids, list) and ids:
        return len(ids)
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict):
        lists = (logprobs.get(name) for name in ("content", "refusal", "tokens"))
        content, refusal, tokens = (len(one) if isinstance(one, list) else 0 for one in lists)
        return content + refusal or tokens or None
    return None


def read_choice(choice: Mapping[str, object], *, whole: bool) -> list[TokenKind]:
    """Return the kinds of generated text in a choice, in the order in which they are counted.

    Args:
        choice: One element of `choices`.
        whole: The document is a finished completion, so its text is in `message`, not in a delta.
            In a chunk a `message` repeats what the deltas brought and is not generated text.
    """
    delta = choice.get("delta")
    if whole and not isinstance(delta, dict):
        delta = choice.get("message")
    if not isinstance(delta, dict) or not delta:
        return []
    kinds: list[TokenKind] = []
    content = delta.get("content")
    if isinstance(content, str) and delta.keys() <= _PLAIN_FIELDS:
        return ["content"] if content else []  # the usual delta: nothing else to look for
    if _has_reasoning(delta):
        kinds.append("reasoning")
    if isinstance(content, str):
        if content:
            kinds.append("content")
    elif isinstance(content, list):
        kinds = _kinds_of_content_parts(content, kinds)
    if delta.get("refusal") and isinstance(delta["refusal"], str):
        kinds.append("refusal")
    if has_tool_call(delta):
        kinds.append("tool_call")
    if _has_audio(delta.get("audio")):
        kinds.append("audio")
    return kinds


def _has_reasoning(delta: Mapping[str, object]) -> bool:
    # Gateways mirror the same text in several fields, so any of them counts once.
    return any(has_text(delta[name]) for name in _REASONING_FIELDS if delta.get(name))


def _kinds_of_content_parts(parts: list[object], kinds: list[TokenKind]) -> list[TokenKind]:
    thinking = "reasoning" in kinds
    answer = False
    for part in parts:
        if isinstance(part, str):
            answer = answer or bool(part)
        elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            thinking = thinking or has_text(part)
        elif isinstance(part, dict):
            answer = answer or has_text(part.get("text"))
    found: list[TokenKind] = ["reasoning"] if thinking else []
    return [*found, "content"] if answer else found


def has_tool_call(delta: Mapping[str, object]) -> bool:
    """True when a delta or message holds a tool call with a name or arguments."""
    calls = delta.get("tool_calls")
    functions = [delta.get("function_call")]
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            functions += (call.get("function"), call.get("custom"))
    return any(
        isinstance(function, dict)
        and any(function.get(name) for name in ("name", "arguments", "input"))
        for function in functions
    )


def _has_audio(audio: object) -> bool:
    return isinstance(audio, dict) and bool(audio.get("transcript") or audio.get("data"))


def _read_counts(document: Mapping[str, object], event: DecodedEvent) -> None:
    usage = find_usage(document)
    if usage is not None:
        event.usage = read_usage(usage)
        event.running_output_tokens = generated_tokens(usage)
    cached = count_of(object_in(document, "timings").get("cache_n"))
    if cached is not None:
        told = event.usage or Usage()
        if told.cached_input_tokens is None:
            event.usage = replace(told, cached_input_tokens=cached)
    event.server = read_server_timings(document, usage)
