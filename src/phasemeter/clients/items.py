"""What an item of any iterator says: the kinds of text in it, as decoded events without the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from phasemeter.core.decoding import DecodedEvent, TokenPart
from phasemeter.core.timeline import TokenKind
from phasemeter.dialects.openai_chat import count_tokens, read_choice
from phasemeter.dialects.openai_usage import read_usage

KindOf = Callable[[object], TokenKind | None]
"""Tells what kind of generated text an item is; None for an item without any."""


def event_of(item: object, kind_of: KindOf | None) -> DecodedEvent:
    """Return what an item says.

    With `kind_of`, that decides. Without: non-empty text or bytes is content; an object or mapping
    with a `choices` list is read as a chunk of the openai chat or completions dialect; an object or
    mapping with non-empty `text` or `content` text is content; all else is an event without a token.
    """
    if kind_of is not None:
        return _event_of_kind(kind_of(item))
    if isinstance(item, str | bytes | bytearray):
        return _event_of_kind("content" if item else None)
    choices = _field(item, "choices")
    if isinstance(choices, list | tuple):
        return _event_of_chunk(item, choices)
    has_text = any(
        isinstance(text, str) and text for text in (_field(item, "text"), _field(item, "content"))
    )
    return _event_of_kind("content" if has_text else None)


def _event_of_kind(kind: TokenKind | None) -> DecodedEvent:
    return DecodedEvent() if kind is None else DecodedEvent(parts=(TokenPart(kind),), choices=(0,))


def _event_of_chunk(item: object, choices: list[object] | tuple[object, ...]) -> DecodedEvent:
    event = DecodedEvent()
    parts: list[TokenPart] = []
    indexes: list[int] = []
    whole = not str(_field(item, "object") or "").endswith(".chunk")
    for position, one in enumerate(choices):
        choice = _mapping(one)
        index = choice.get("index")
        index = index if isinstance(index, int) else position
        indexes.append(index)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            event.finish_reason = reason
        kinds = read_choice(choice, whole=whole)
        if not kinds and isinstance(choice.get("text"), str) and choice["text"]:
            kinds = ["content"]
        parts += (TokenPart(kind, index, count_tokens(choice)) for kind in kinds)
    event.parts = parts
    event.choices = indexes
    usage = _mapping(_field(item, "usage"))
    if usage:
        event.usage = read_usage(usage)
        running = usage.get("completion_tokens")
        event.running_output_tokens = running if isinstance(running, int) else None
    model = _field(item, "model")
    event.model = model if isinstance(model, str) else None
    return event


def _field(item: object, name: str) -> object:
    if isinstance(item, Mapping):
        return item.get(name)
    return getattr(item, name, None)


def _mapping(value: object) -> Mapping[str, object]:
    """Return an object's fields: of a mapping, of a pydantic model, or its attributes."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast(Mapping[str, object], dump())
    fields = getattr(value, "__dict__", None)
    if not isinstance(fields, dict):
        return {}
    return {
        name: dict(_mapping(field)) if hasattr(field, "__dict__") else field
        for name, field in fields.items()
    }
