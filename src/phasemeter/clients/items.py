"""What an item of any iterator says, without its text.

An item with the shape of a known wire's event (the chunk objects of client libraries are that) is written
as JSON and read by the dialect of that wire, so that its rules hold here too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import cast

from phasemeter.core.decoding import DecodedEvent, Decoder, TokenPart
from phasemeter.core.framing import Frame
from phasemeter.core.token_events import TokenKind
from phasemeter.dialects import by_name

KindOf = Callable[[object], TokenKind | None]
"""Tells what kind of generated text an item is; None for an item without any."""

_ANTHROPIC_EVENTS = frozenset(
    (
        "content_block_delta",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_start",
        "message_stop",
    )
)
_WRAPPERS = ("chunk", "data")
_REPEATS = ("content.", "refusal.", "tool_calls.", "logprobs.")
"""Beginnings of the types of helper events that repeat what a `chunk` event has told."""


class ItemReader:
    """Reads the items of one iteration, in order.

    With `kind_of`, that alone decides. Without:

    - non-empty text or bytes is content;
    - an object or mapping with the fields of a known wire's event is read by that dialect:
      `choices` (openai, and what follows it), `candidates` (Gemini), `done` with `message` or
      `response` (Ollama), `token` (TGI), a `type` of the Responses or Anthropic events;
    - a LangChain message chunk is read by its `content`, `tool_call_chunks` and reasoning;
    - an object that wraps one of those in `chunk` or `data` is read as that;
    - one with non-empty `text` or `content` text is content; all else is an event without a token.

    Attributes:
        needs_finish: Text was read by a dialect, and those tell when an answer is complete.
    """

    def __init__(self, kind_of: KindOf | None) -> None:
        self.needs_finish = False
        self._kind_of = kind_of
        self._decoders: dict[str, Decoder] = {}

    def event_of(self, item: object) -> DecodedEvent:
        """Return what an item says."""
        if self._kind_of is not None:
            return _event_of_kind(self._kind_of(item))
        if isinstance(item, str | bytes | bytearray):
            return _event_of_kind("content" if item else None)
        event = self._event_of_wire(item)
        if event is not None:
            return event
        for name in _WRAPPERS:
            inner = _field(item, name)
            event = None if inner is None else self._event_of_wire(inner)
            if event is not None:
                return event
        if str(_field(item, "type") or "").startswith(_REPEATS):
            return DecodedEvent()
        texts = (_field(item, name) for name in ("text", "content"))
        has_text = any(isinstance(text, str) and text for text in texts)
        return _event_of_kind("content" if has_text else None)

    def _event_of_wire(self, item: object) -> DecodedEvent | None:
        if _field(item, "type") == "AIMessageChunk":
            return self._decoded("openai.chat", _json_of(_chat_chunk_of(item)), told=False)
        dialect = _dialect_of(item)
        return None if dialect is None else self._decoded(dialect, _json_of(item), told=True)

    def _decoded(self, dialect: str, document: str, *, told: bool) -> DecodedEvent:
        decoder = self._decoders.get(dialect)
        if decoder is None:
            decoder = self._decoders[dialect] = by_name(dialect).decoder()
        event = decoder.decode(Frame(document))
        self.needs_finish = self.needs_finish or (told and bool(event.parts))
        return event


def _event_of_kind(kind: TokenKind | None) -> DecodedEvent:
    return DecodedEvent() if kind is None else DecodedEvent(parts=(TokenPart(kind),), choices=(0,))


def _dialect_of(item: object) -> str | None:
    """Return the name of the dialect whose event an item has the shape of, or None."""
    choices = _field(item, "choices")
    if isinstance(choices, list | tuple):
        first = choices[0] if choices else None
        is_legacy = isinstance(_field(first, "text"), str) and _field(first, "delta") is None
        return "openai.completions" if is_legacy else "openai.chat"
    if isinstance(_field(item, "candidates"), list | tuple):
        return "gemini.generate"
    if isinstance(_field(item, "done"), bool):
        answer = _field(item, "response")
        return None if answer is None and _field(item, "message") is None else "ollama.chat"
    if isinstance(_field(_field(item, "token"), "text"), str):
        return "tgi.generate"
    kind = _field(item, "type")
    if not isinstance(kind, str):
        return None
    if kind in _ANTHROPIC_EVENTS:
        return "anthropic.messages"
    if kind.startswith("response."):
        return "openai.responses"
    if kind == "error":
        return "anthropic.messages" if _field(item, "error") is not None else "openai.responses"
    return None


def _chat_chunk_of(chunk: object) -> dict[str, object]:
    """Return a LangChain message chunk as a chat chunk; its counts are to be added up, so left out."""
    reasoning = _field(_field(chunk, "additional_kwargs"), "reasoning_content")
    calls = _field(chunk, "tool_call_chunks")
    functions = [
        {"function": {"name": _field(call, "name"), "arguments": _field(call, "args")}}
        for call in (calls if isinstance(calls, list | tuple) else ())
    ]
    delta = {
        "content": _field(chunk, "content"),
        "reasoning_content": reasoning,
        "tool_calls": functions,
    }
    told = _field(chunk, "response_metadata")
    reason = _field(told, "finish_reason") or _field(told, "stop_reason")
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {
        "object": "chat.completion.chunk",
        "model": _field(told, "model_name"),
        "choices": [choice],
    }


def _field(item: object, name: str) -> object:
    if isinstance(item, Mapping):
        return item.get(name)
    return getattr(item, name, None)


def _json_of(item: object) -> str:
    """Return an item as JSON; an empty object where it cannot be written as that."""
    dump = getattr(item, "model_dump_json", None)
    try:
        if callable(dump):
            # By the wire's own names; a field that holds what its type does not say is no fault of ours.
            return cast(str, dump(by_alias=True, warnings=False))
        return json.dumps(item, default=_plain)
    except Exception:  # noqa: BLE001  the item is the application's, and so is whatever it raises
        return "{}"


def _plain(value: object) -> object:
    """Return what is in an object that is no JSON value; None where that is not to be seen."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(by_alias=True, warnings=False)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    attributes = getattr(value, "__dict__", None)
    return dict(attributes) if isinstance(attributes, dict) else None
