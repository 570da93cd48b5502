"""What the OpenAI dialects share: usage objects, in-band errors, the numbers servers add."""

from __future__ import annotations

from collections.abc import Mapping

from phasemeter.core.errors import classify_error_object
from phasemeter.core.timeline import Usage


def find_usage(document: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the usage object of a chunk: top level, under `x_groq`, or inside a choice."""
    usage = document.get("usage")
    if isinstance(usage, dict):
        return usage
    vendor = document.get("x_groq")
    if isinstance(vendor, dict) and isinstance(vendor.get("usage"), dict):
        return vendor["usage"]  # type: ignore[no-any-return]
    choices = document.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict) and isinstance(choice.get("usage"), dict):
                return choice["usage"]  # type: ignore[no-any-return]
    return None


def read_usage(usage: Mapping[str, object]) -> Usage:
    """Return the counts of a usage object.

    `output_tokens` is everything generated: some vendors count reasoning outside
    `completion_tokens`, which shows when total = prompt + completion + reasoning.
    """
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    output = completion
    if (
        reasoning
        and prompt is not None
        and completion is not None
        and _count(usage.get("total_tokens")) == prompt + completion + reasoning
    ):
        output = completion + reasoning
    return Usage(
        input_tokens=prompt,
        cached_input_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
        output_tokens=output,
        reasoning_tokens=reasoning,
    )


def read_error(document: Mapping[str, object]) -> str | None:
    """Return the class of an error told in band, or None where the document tells none.

    Errors come under an `error` key, or flat as `{"object": "error", "message": ...}`.
    """
    error = document.get("error")
    if error:
        return classify_error_object(error)
    if document.get("object") == "error":
        return classify_error_object(document)
    return None


def read_server_timings(document: Mapping[str, object]) -> dict[str, float]:
    """Return what vLLM's `metrics` object says about the request (names with units as sent)."""
    metrics = document.get("metrics")
    if not isinstance(metrics, dict):
        return {}
    return {
        str(name): float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value >= 0 else None


def _detail(usage: Mapping[str, object], group: str, name: str) -> int | None:
    details = usage.get(group)
    return _count(details.get(name)) if isinstance(details, dict) else None
