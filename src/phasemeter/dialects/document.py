"""What every dialect does with a frame: parse it, see the end mark and in-band errors, read values."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping

from phasemeter.core.decoding import DecodedEvent, TokenPart
from phasemeter.core.errors import classify_error_document
from phasemeter.core.framing import Frame
from phasemeter.core.token_events import TokenKind

Document = Mapping[str, object]

_END_MARK_CHARS = 32
_KINDS_IN_ORDER: tuple[TokenKind, ...] = ("reasoning", "content", "refusal", "tool_call", "audio")
_TEXT_FIELDS = ("text", "thinking", "summary", "content")


def open_frame(frame: Frame) -> tuple[Document | None, DecodedEvent]:
    """Parse a frame and start its event.

    Returns:
        The JSON object in the frame, None where there is none to look at, and an event that already
        tells the end mark `[DONE]`, an in-band error, and the model under `model`.
    """
    data = frame.data
    if len(data) < _END_MARK_CHARS and data.strip() == "[DONE]":
        return None, DecodedEvent(terminal=True, done=True)
    is_error = frame.is_error or frame.event == "error"
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return None, DecodedEvent(error_type="unknown" if is_error else None)
    if is_error and not document.get("error"):
        document = {"error": document or True}
    event = DecodedEvent()
    if is_error or '"error"' in data:  # spares the search in nearly every event
        event.error_type = read_error(document)
    model = document.get("model")
    event.model = model if isinstance(model, str) else None
    return document, event


def read_error(document: Document) -> str | None:
    """Return the class of an error told in band, or None where the document tells none.

    Errors come under an `error` key (of the document, of `x_groq`, of a choice), or flat as
    `{"object": "error", "message": ...}` or `{"type": "error", ...}`.
    """
    for place in places(document):
        if place.get("error"):
            return classify_error_document(place)
    if document.get("object") == "error" or document.get("type") == "error":
        return classify_error_document(document)
    return None


def places(document: Document) -> list[Document]:
    """Where vendors put what concerns the whole response: the document, `x_groq`, the choices."""
    choices = document.get("choices")
    found: list[Document] = [document]
    if "x_groq" in document and isinstance(document["x_groq"], dict):
        found.append(document["x_groq"])
    if isinstance(choices, list):
        found += objects_in(choices)
    return found


def token_parts(
    kinds: Collection[TokenKind], *, choice: int = 0, tokens: int | None = None
) -> list[TokenPart]:
    """Return one part a kind, in the order in which the kinds of one event are counted."""
    return [TokenPart(kind, choice, tokens) for kind in _KINDS_IN_ORDER if kind in kinds]


def has_text(value: object) -> bool:
    """True for non-empty text, and for an object or list with such a text inside."""
    pending = [value]  # no recursion: a document may be nested as deep as the parser allows
    while pending:
        one = pending.pop()
        if isinstance(one, str) and one:
            return True
        if isinstance(one, dict):
            pending += (one.get(name) for name in _TEXT_FIELDS)
        elif isinstance(one, list):
            pending += one
    return False


def text_in(document: Document, name: str) -> str | None:
    """Return a field that is non-empty text, else None."""
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def object_in(document: Document, name: str) -> Document:
    """Return a field that is an object; an empty one where it is missing or something else."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def objects_in(value: object) -> list[Document]:
    """Return the objects of a list; nothing where the value is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def count_of(value: object) -> int | None:
    """Return a count, or None where the value is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value >= 0 else None


def first_count(*values: object) -> int | None:
    """Return the first value that is a count, or None."""
    for value in values:
        count = count_of(value)
        if count is not None:
            return count
    return None


def length_of(value: object) -> int | None:
    """Return the length of a non-empty list, else None."""
    return len(value) if isinstance(value, list) and value else None


def finite_numbers(document: Document, names: Iterable[str]) -> dict[str, float]:
    """Return those of the named fields that are finite numbers."""
    return {
        name: value
        for name in names
        if isinstance(value := document.get(name), int | float)
        and not isinstance(value, bool)
        and _is_finite(value)
    }


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False
