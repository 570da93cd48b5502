"""Anthropic's Messages API, as spoken by Anthropic, Bedrock and Vertex proxies, vLLM, SGLang, Ollama."""

from __future__ import annotations

from collections.abc import Mapping

from phasemeter.core.decoding import DecodedEvent, Decoder
from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import Usage
from phasemeter.core.token_events import TokenKind
from phasemeter.dialects.document import (
    Document,
    count_of,
    finite_numbers,
    object_in,
    objects_in,
    open_frame,
    text_in,
    token_parts,
)

_INPUT_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TEXT_OF_DELTA: Mapping[str, tuple[str, TokenKind]] = {
    "text_delta": ("text", "content"),
    "thinking_delta": ("thinking", "reasoning"),
    "input_json_delta": ("partial_json", "tool_call"),
}
_TEXT_OF_BLOCK: Mapping[str, tuple[str, TokenKind]] = {
    "text": ("text", "content"),
    "thinking": ("thinking", "reasoning"),
}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_VENDOR_METRICS = "amazon-bedrock-invocationMetrics"
_VENDOR_COUNTS = {
    "input_tokens": "inputTokenCount",
    "cache_read_input_tokens": "cacheReadInputTokenCount",
    "cache_creation_input_tokens": "cacheWriteInputTokenCount",
    "output_tokens": "outputTokenCount",
}
_VENDOR_LATENCIES = ("invocationLatency", "firstByteLatency")


class AnthropicMessages:
    """`POST .../v1/messages` with `stream: true`."""

    name = "anthropic.messages"
    operation = "chat"
    path_suffixes = ("/v1/messages",)
    stream_suffixes = ()
    json_lines = False
    varying = Varying(text_keys=("text", "thinking", "partial_json"))

    def decoder(self) -> Decoder:
        """Return a decoder, which remembers the counts: they come in several events."""
        return _MessagesDecoder()


class _MessagesDecoder:
    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def decode(self, frame: Frame) -> DecodedEvent:
        document, event = open_frame(frame)
        if document is None:
            return event
        name = text_in(document, "type") or frame.event
        if name == "content_block_delta":
            delta = object_in(document, "delta")
            event.parts = token_parts(_kinds_of_text(delta, _TEXT_OF_DELTA))
        elif name == "content_block_start":
            event.parts = token_parts(_kinds_of_block(object_in(document, "content_block")))
        elif name == "message_start":
            message = object_in(document, "message")
            event.model = text_in(message, "model")
            # Its output count is a placeholder, written before anything was generated.
            self._take(object_in(message, "usage"), _INPUT_COUNTS)
        elif name == "message_delta":
            event.finish_reason = text_in(object_in(document, "delta"), "stop_reason")
            self._take(object_in(document, "usage"), (*_INPUT_COUNTS, "output_tokens"))
        elif name == "message_stop":
            event.terminal = True
            self._take_vendor_metrics(object_in(document, _VENDOR_METRICS), event)
        elif name == "message":
            self._take_whole(document, event)
        event.usage = self._usage()
        event.choices = (0,) if event.parts else ()
        return event

    def _take(self, usage: Document, names: tuple[str, ...]) -> None:
        for name in names:
            count = count_of(usage.get(name))
            if count is not None:
                self._counts[name] = count

    def _take_vendor_metrics(self, metrics: Document, event: DecodedEvent) -> None:
        for name, vendor_name in _VENDOR_COUNTS.items():
            count = count_of(metrics.get(vendor_name))
            if count is not None:
                self._counts.setdefault(name, count)
        event.server = finite_numbers(metrics, _VENDOR_LATENCIES)

    def _take_whole(self, message: Document, event: DecodedEvent) -> None:
        """Take a body that is one finished message: the server did not stream."""
        kinds: set[TokenKind] = set()
        for block in objects_in(message.get("content")):
            kinds.update(_kinds_of_block(block))
        event.parts = token_parts(kinds)
        event.finish_reason = text_in(message, "stop_reason")
        self._take(object_in(message, "usage"), (*_INPUT_COUNTS, "output_tokens"))

    def _usage(self) -> Usage | None:
        """The whole prompt is what was fresh, what was read from a cache and what was put in one."""
        counts = self._counts
        if not counts:
            return None
        fresh = counts.get("input_tokens")
        cached = counts.get("cache_read_input_tokens")
        created = counts.get("cache_creation_input_tokens")
        return Usage(
            input_tokens=None if fresh is None else fresh + (cached or 0) + (created or 0),
            cached_input_tokens=cached,
            output_tokens=counts.get("output_tokens"),
        )


def _kinds_of_text(
    place: Document, text_of: Mapping[str, tuple[str, TokenKind]]
) -> tuple[TokenKind, ...]:
    field, kind = text_of.get(text_in(place, "type") or "", ("", "content"))
    return (kind,) if text_in(place, field) else ()


def _kinds_of_block(block: Document) -> tuple[TokenKind, ...]:
    if block.get("type") in _CALLS:
        return ("tool_call",) if block.get("name") or block.get("input") else ()
    return _kinds_of_text(block, _TEXT_OF_BLOCK)
