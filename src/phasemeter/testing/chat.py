"""Scripted chat completions as an OpenAI-compatible server streams them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from phasemeter.core.token_events import TokenKind

_FIELDS: Mapping[TokenKind, str] = {
    "content": "content",
    "reasoning": "reasoning_content",
    "refusal": "refusal",
}


def chat_chunk(
    delta: Mapping[str, object], *, finish_reason: str | None = None, model: str = "scripted"
) -> str:
    """Return the JSON of one chunk with one choice."""
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish_reason}
    return _chunk([choice], model)


def chat_events(
    *,
    first_ms: float = 60.0,
    gap_ms: float = 20.0,
    kinds: Sequence[TokenKind] = ("content",) * 8,
    finish_reason: str | None = "stop",
    input_tokens: int = 5,
    model: str = "scripted",
) -> list[tuple[float, str]]:
    """Return a whole stream as (time in ms, data): role, one token a kind, finish, usage, end mark.

    Args:
        first_ms: Time of the first token; the role chunk comes at a third of it.
        gap_ms: Time from token to token.
        kinds: Kind of each token: content, reasoning or refusal.
        finish_reason: Finish reason; with None the stream stops after the last token.
        input_tokens: Prompt tokens told by the usage chunk.
        model: Model named in the chunks.
    """
    events = [(first_ms / 3, chat_chunk({"role": "assistant", "content": ""}, model=model))]
    events += (
        (first_ms + index * gap_ms, chat_chunk({_FIELDS[kind]: "ab"}, model=model))
        for index, kind in enumerate(kinds)
    )
    if finish_reason is None:
        return events
    end_ms = events[-1][0] + 1
    usage = {
        "prompt_tokens": input_tokens,
        "completion_tokens": len(kinds),
        "total_tokens": input_tokens + len(kinds),
    }
    return [
        *events,
        (end_ms, chat_chunk({}, finish_reason=finish_reason, model=model)),
        (end_ms, _chunk([], model, usage=usage)),
        (end_ms, "[DONE]"),
    ]


def _chunk(choices: Sequence[object], model: str, **more: object) -> str:
    document = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 0}
    return json.dumps({**document, "model": model, "choices": choices, **more})
