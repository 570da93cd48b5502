"""Gemini's generateContent, as spoken by the Gemini API and Vertex: events, or one JSON array."""

from __future__ import annotations

from phasemeter.core.decoding import DecodedEvent, Decoder, TokenPart
from phasemeter.core.framing import Frame
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import Usage
from phasemeter.core.token_events import TokenKind
from phasemeter.dialects.document import (
    Document,
    count_of,
    length_of,
    object_in,
    objects_in,
    open_frame,
    text_in,
    token_parts,
)

_COUNTS = (
    "promptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
)


class GeminiGenerate:
    """`POST .../models/MODEL:streamGenerateContent`, with `alt=sse` or without."""

    name = "gemini.generate"
    operation = "generate_content"
    path_suffixes = (":streamGenerateContent", ":generateContent")
    stream_suffixes = (":streamGenerateContent",)
    json_lines = False
    varying = Varying()

    def decoder(self) -> Decoder:
        """Return a decoder, which remembers the counts: a chunk may leave some of them out."""
        return _GeminiDecoder()


class _GeminiDecoder:
    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def decode(self, frame: Frame) -> DecodedEvent:
        document, event = open_frame(frame)
        if document is None:
            return event
        candidates = objects_in(document.get("candidates"))
        parts: list[TokenPart] = []
        choices: list[int] = []
        for candidate in candidates:
            choice = count_of(candidate.get("index")) or 0
            choices.append(choice)
            event.finish_reason = text_in(candidate, "finishReason") or event.finish_reason
            parts += _parts(candidate, choice)
        event.parts, event.choices = parts, choices
        if not candidates:
            event.finish_reason = text_in(object_in(document, "promptFeedback"), "blockReason")
        event.model = text_in(document, "modelVersion")
        event.usage = self._usage(object_in(document, "usageMetadata"))
        return event

    def _usage(self, told: Document) -> Usage | None:
        """Counts are cumulative; thoughts are not among the candidates' tokens."""
        for name in _COUNTS:
            count = count_of(told.get(name))
            if count is not None:
                self._counts[name] = count
        if not self._counts:
            return None
        prompt, cached, answer, thoughts = (self._counts.get(name) for name in _COUNTS)
        known = [count for count in (answer, thoughts) if count is not None]
        return Usage(
            input_tokens=prompt,
            cached_input_tokens=cached,
            output_tokens=sum(known) if known else None,
            reasoning_tokens=thoughts,
        )


def _parts(candidate: Document, choice: int) -> list[TokenPart]:
    parts = objects_in(object_in(candidate, "content").get("parts"))
    kinds = {kind for part in parts if (kind := _kind_of(part)) is not None}
    logprobs = object_in(candidate, "logprobsResult").get("chosenCandidates")
    return token_parts(kinds, choice=choice, tokens=length_of(logprobs))


def _kind_of(part: Document) -> TokenKind | None:
    if text_in(part, "text"):
        return "reasoning" if part.get("thought") is True else "content"
    call = object_in(part, "functionCall")
    if any(call.get(name) for name in ("name", "args", "partialArgs")):
        return "tool_call"
    if text_in(object_in(part, "executableCode"), "code"):
        return "tool_call"
    blob = object_in(part, "inlineData")
    is_audio = (text_in(blob, "mimeType") or "").startswith("audio/")
    return "audio" if is_audio and text_in(blob, "data") else None
