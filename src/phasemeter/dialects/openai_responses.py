"""OpenAI's Responses API, as spoken by OpenAI, Azure, vLLM and gateways in front of other models."""

from __future__ import annotations

from collections.abc import Mapping

from phasemeter.core.decoding import DecodedEvent, Decoder
from phasemeter.core.errors import classify_error_object
from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.token_events import TokenKind
from phasemeter.dialects.document import (
    Document,
    has_text,
    length_of,
    object_in,
    objects_in,
    open_frame,
    text_in,
    token_parts,
)
from phasemeter.dialects.openai_usage import (
    find_usage,
    generated_tokens,
    read_server_timings,
    read_usage,
)

_KIND_OF_DELTA: Mapping[str, TokenKind] = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "refusal",
    "response.reasoning.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "tool_call",
    "response.custom_tool_call_input.delta": "tool_call",
    "response.mcp_call_arguments.delta": "tool_call",
    "response.code_interpreter_call_code.delta": "tool_call",
    "response.shell_call_command.delta": "tool_call",
    "response.audio.delta": "audio",
    "response.audio.transcript.delta": "audio",
    "response.output_audio.delta": "audio",
    "response.output_audio_transcript.delta": "audio",
}
_KIND_OF_PART: Mapping[str, TokenKind] = {
    "output_text": "content",
    "refusal": "refusal",
    "reasoning_text": "reasoning",
    "summary_text": "reasoning",
}
_CALLS = ("function_call", "custom_tool_call", "mcp_call", "mcp_approval_request")
_STATUS_OF_EVENT = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}


class OpenAIResponses:
    """`POST .../responses` with `stream: true`."""

    name = "openai.responses"
    operation = "chat"
    path_suffixes = ("/responses",)
    stream_suffixes = ()
    json_lines = False
    varying = Varying(text_keys=("delta", "obfuscation"), number_keys=("sequence_number",))

    def decoder(self) -> Decoder:
        """Return a decoder; this dialect has nothing to remember between events."""
        return _ResponsesDecoder()


class _ResponsesDecoder:
    def decode(self, frame: Frame) -> DecodedEvent:
        document, event = open_frame(frame)
        if document is None:
            return event
        name = text_in(document, "type") or frame.event or ""
        kind = _KIND_OF_DELTA.get(name)
        if kind is not None:
            if has_text(document.get("delta")):
                event.parts = token_parts([kind], tokens=length_of(document.get("logprobs")))
        elif name == "response.output_item.added":
            event.parts = token_parts(_kinds_of_item(object_in(document, "item")))
        elif name.endswith("_part.added"):
            event.parts = token_parts(_kinds_of_content([document.get("part")]))
        elif document.get("object") == "response":
            _read_whole(document, event)
        status = _STATUS_OF_EVENT.get(name)
        if status is not None or "response" in document:
            _read_response(object_in(document, "response"), status, event)
        _read_counts(document, event)
        event.choices = (0,) if event.parts else ()
        return event


def _read_whole(response: Document, event: DecodedEvent) -> None:
    """Take a body that is one finished response: the server did not stream."""
    kinds: set[TokenKind] = set()
    for item in objects_in(response.get("output")):
        kinds |= _kinds_of_item(item)
    event.parts = token_parts(kinds)
    _read_response(response, text_in(response, "status"), event)


def _read_response(response: Document, status: str | None, event: DecodedEvent) -> None:
    if status == "completed":
        event.terminal = True
        event.finish_reason = status
    elif status == "incomplete":
        event.terminal = True
        event.finish_reason = text_in(object_in(response, "incomplete_details"), "reason")
    if event.error_type is None and (status == "failed" or response.get("error")):
        event.error_type = classify_error_object(response.get("error"))
    event.model = text_in(response, "model") or event.model
    if "metrics" in response or "timings" in response:
        event.server = read_server_timings(response, find_usage(response))
    _read_counts(response, event)


def _read_counts(document: Document, event: DecodedEvent) -> None:
    usage = object_in(document, "usage")
    if usage:
        event.usage = read_usage(usage)
        event.running_output_tokens = generated_tokens(usage)


def _kinds_of_item(item: Document) -> set[TokenKind]:
    """The name of what is called stands in the item; text usually follows in deltas."""
    kinds = _kinds_of_content(item.get("content")) | _kinds_of_content(item.get("summary"))
    if item.get("type") in _CALLS and any(item.get(key) for key in ("name", "arguments", "input")):
        kinds.add("tool_call")
    return kinds


def _kinds_of_content(content: object) -> set[TokenKind]:
    return {
        kind
        for part in objects_in(content)
        if (kind := _KIND_OF_PART.get(text_in(part, "type") or ""))
        and (text_in(part, "text") or text_in(part, "refusal"))
    }
