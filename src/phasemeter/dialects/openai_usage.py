"""What the OpenAI dialects share: usage objects and the timings that servers add to them."""

from __future__ import annotations

from collections.abc import Mapping

from phasemeter.core.timeline import Usage
from phasemeter.dialects.document import count_of, finite_numbers, first_count, object_in, places

_RUNNING_FIELDS = frozenset(("prompt_tokens", "completion_tokens", "total_tokens"))
_GROQ_TIMES = ("queue_time", "prompt_time", "completion_time", "total_time")


def find_usage(document: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the usage object of a chunk: top level, under `x_groq`, or inside a choice."""
    usage = document.get("usage")
    if usage and isinstance(usage, dict):
        return usage
    for place in places(document)[1:]:
        usage = place.get("usage")
        if usage and isinstance(usage, dict):
            return usage
    return None


def read_usage(usage: Mapping[str, object]) -> Usage:
    """Return the counts of a usage object, under the names of chat or of the Responses API.

    `output_tokens` is everything generated: some vendors count reasoning outside the completion,
    which shows when total = prompt + completion + reasoning.
    """
    if usage.keys() <= _RUNNING_FIELDS:  # as it stands on every chunk where running counts are told
        return Usage(
            input_tokens=count_of(usage.get("prompt_tokens")),
            output_tokens=count_of(usage.get("completion_tokens")),
        )
    prompt = first_count(usage.get("prompt_tokens"), usage.get("input_tokens"))
    completion = generated_tokens(usage)
    reasoning = first_count(
        _detail(usage, "completion_tokens_details", "reasoning_tokens"),
        _detail(usage, "output_tokens_details", "reasoning_tokens"),
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
        cached_input_tokens=first_count(
            _detail(usage, "prompt_tokens_details", "cached_tokens"),
            _detail(usage, "input_tokens_details", "cached_tokens"),
            usage.get("prompt_cache_hit_tokens"),
            usage.get("cached_tokens"),
        ),
        output_tokens=output,
        reasoning_tokens=reasoning,
    )


def generated_tokens(usage: Mapping[str, object]) -> int | None:
    """Return the completion count of a usage object; in a running usage, the count so far."""
    return first_count(usage.get("completion_tokens"), usage.get("output_tokens"))


def read_server_timings(
    document: Mapping[str, object], usage: Mapping[str, object] | None
) -> dict[str, float]:
    """Return the timings that a server adds to a chunk, by their own names, with units as sent.

    vLLM's `metrics`, llama.cpp's `timings`, and Groq's times (seconds) inside the usage.

    Args:
        document: The chunk.
        usage: Its usage object, None where it has none.
    """
    told: dict[str, float] = {}
    for name in ("metrics", "timings"):
        if name in document:
            numbers = object_in(document, name)
            told |= finite_numbers(numbers, numbers)
    if usage is not None and not usage.keys() <= _RUNNING_FIELDS:
        told |= finite_numbers(usage, _GROQ_TIMES)
    return told


def _detail(usage: Mapping[str, object], group: str, name: str) -> int | None:
    return count_of(object_in(usage, group).get(name))
