"""What the OpenAI dialects share: usage objects, in-band errors, the numbers servers add."""

from __future__ import annotations

import math
from collections.abc import Mapping

from phasemeter.core.errors import classify_error_document
from phasemeter.core.timeline import Usage


def find_usage(document: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the usage object of a chunk: top level, under `x_groq`, or inside a choice."""
    usage = document.get("usage")
    if usage and isinstance(usage, dict):
        return usage
    for place in _places(document)[1:]:
        usage = place.get("usage")
        if usage and isinstance(usage, dict):
            return usage
    return None


def _places(document: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Where vendors put what concerns the whole response: the chunk, `x_groq`, the choices."""
    choices = document.get("choices")
    places: list[Mapping[str, object]] = [document]
    if "x_groq" in document and isinstance(document["x_groq"], dict):
        places.append(document["x_groq"])
    if isinstance(choices, list):
        places += [choice for choice in choices if isinstance(choice, dict)]
    return places


def read_usage(usage: Mapping[str, object]) -> Usage:
    """Return the counts of a usage object.

    `output_tokens` is everything generated: some vendors count reasoning outside
    `completion_tokens`, which shows when total = prompt + completion + reasoning.
    """
    prompt = count_of(usage.get("prompt_tokens"))
    completion = count_of(usage.get("completion_tokens"))
    reasoning = _first_count(
        _detail(usage, "completion_tokens_details", "reasoning_tokens"),
        usage.get("reasoning_tokens"),
    )
    output = completion
    if (
        reasoning
        and prompt is not None
        and completion is not None
        and count_of(usage.get("total_tokens")) == prompt + completion + reasoning
    ):
        output = completion + reasoning
    return Usage(
        input_tokens=prompt,
        cached_input_tokens=_first_count(
            _detail(usage, "prompt_tokens_details", "cached_tokens"),
            usage.get("prompt_cache_hit_tokens"),
            usage.get("cached_tokens"),
        ),
        output_tokens=output,
        reasoning_tokens=reasoning,
    )


def read_error(document: Mapping[str, object]) -> str | None:
    """Return the class of an error told in band, or None where the document tells none.

    Errors come under an `error` key (of the chunk, of `x_groq`, of a choice), or flat as
    `{"object": "error", "message": ...}` or `{"type": "error", ...}`.
    """
    for place in _places(document):
        if place.get("error"):
            return classify_error_document(place)
    if document.get("object") == "error" or document.get("type") == "error":
        return classify_error_document(document)
    return None


def read_server_timings(document: Mapping[str, object]) -> dict[str, float]:
    """Return what vLLM's `metrics` object says about the request (names with units as sent)."""
    metrics = document.get("metrics")
    if not isinstance(metrics, dict):
        return {}
    return {
        str(name): value
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    }


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def count_of(value: object) -> int | None:
    """Return a count, or None where the value is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value >= 0 else None


def _detail(usage: Mapping[str, object], group: str, name: str) -> int | None:
    details = usage.get(group)
    return count_of(details.get(name)) if isinstance(details, dict) else None


def _first_count(*values: object) -> int | None:
    return next((count for count in map(count_of, values) if count is not None), None)
