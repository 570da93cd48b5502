"""Ollama's own API, as spoken by Ollama and proxies in front of it: one JSON document a line."""

from __future__ import annotations

from phasemeter.core.decoding import DecodedEvent, Decoder
from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import Usage
from phasemeter.core.token_events import TokenKind
from phasemeter.dialects.document import (
    Document,
    count_of,
    finite_numbers,
    length_of,
    open_frame,
    text_in,
    token_parts,
)
from phasemeter.dialects.openai_chat import has_tool_call

_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


class OllamaChat:
    """`POST .../api/chat` and `.../api/generate`, which stream unless `stream: false` is asked for."""

    name = "ollama.chat"
    operation = "chat"
    path_suffixes = ("/api/chat", "/api/generate")
    stream_suffixes = path_suffixes
    json_lines = True
    varying = Varying(text_keys=("content", "response", "thinking", "created_at"))

    def decoder(self) -> Decoder:
        """Return a decoder; this dialect has nothing to remember between lines."""
        return _OllamaDecoder()


class _OllamaDecoder:
    def decode(self, frame: Frame) -> DecodedEvent:
        document, event = open_frame(frame)
        if document is None:
            return event
        event.parts = token_parts(_kinds(document), tokens=length_of(document.get("logprobs")))
        event.choices = (0,) if event.parts else ()
        if document.get("done") is True:
            event.terminal = True
            event.finish_reason = text_in(document, "done_reason")
        if "eval_count" in document or "prompt_eval_count" in document:
            event.usage = Usage(
                input_tokens=count_of(document.get("prompt_eval_count")),
                output_tokens=count_of(document.get("eval_count")),
            )
        event.server = finite_numbers(document, _DURATIONS)  # nanoseconds
        return event


def _kinds(document: Document) -> list[TokenKind]:
    """A chat line has its text in `message`, a line of `/api/generate` in the document itself."""
    message = document.get("message")
    place, field = (message, "content") if isinstance(message, dict) else (document, "response")
    kinds: list[TokenKind] = []
    if text_in(place, "thinking"):
        kinds.append("reasoning")
    if text_in(place, field):
        kinds.append("content")
    if has_tool_call(place):
        kinds.append("tool_call")
    return kinds
