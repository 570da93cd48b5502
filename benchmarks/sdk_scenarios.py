"""The scenarios that every tool goes through: what the server sends and what the user does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from phasemeter.testing import ScriptedRead, ScriptedReply, chat_chunk, chat_events

FIRST_CHUNK_MS = 100.0
FIRST_TOKEN_MS = 400.0
GAP_MS = 20.0
PAUSE_MS = 50.0
TOKENS = 20

HOWS = ("sync", "async")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing that an application does.

    Attributes:
        name: Name in the results.
        action: Method of the worker's scenarios.
        reply: What the server sends.
        options: Arguments of the action.
        hows: Clients that can do it.
        is_error: Whether the exit is one that a trace should show as an error; None where either
            can be argued.
        then: What the server sends to a follow-up request.
    """

    name: str
    action: str
    reply: ScriptedReply
    options: Mapping[str, object] = field(default_factory=dict)
    hows: Sequence[str] = HOWS
    is_error: bool | None = None
    then: ScriptedReply | None = None


def _prelude() -> ScriptedReply:
    """Return headers and a role chunk at 100 ms, the first token at 400 ms, then one each 20 ms."""
    events = [
        (FIRST_CHUNK_MS, chat_chunk({"role": "assistant", "content": ""})),
        *_tokens(FIRST_TOKEN_MS, GAP_MS, TOKENS),
    ]
    return ScriptedReply.of_events(
        [*events, *_finish(events[-1][0] + 1)], headers_t_ms=FIRST_CHUNK_MS - 5
    )


def _even() -> ScriptedReply:
    """Return a role chunk and tokens, all 20 ms apart, the finish with the last one."""
    events = [
        (GAP_MS, chat_chunk({"role": "assistant", "content": ""})),
        *_tokens(2 * GAP_MS, GAP_MS, TOKENS),
    ]
    return ScriptedReply.of_events([*events, *_finish(events[-1][0] + GAP_MS)])


def _tokens(first_ms: float, gap_ms: float, count: int) -> list[tuple[float, str]]:
    return [(first_ms + gap_ms * one, chat_chunk({"content": "ab"})) for one in range(count)]


def _finish(t_ms: float) -> list[tuple[float, str]]:
    return [(t_ms, chat_chunk({}, finish_reason="stop")), (t_ms, "[DONE]")]


def _short(**options: object) -> ScriptedReply:
    return ScriptedReply.of_events(chat_events(first_ms=30, gap_ms=10), **options)


def _broken_off(end: str, *more: str) -> ScriptedReply:
    """Return five tokens without a finish, then perhaps more, then an end."""
    events = chat_events(first_ms=30, gap_ms=10, kinds=("content",) * 5, finish_reason=None)
    events += ((events[-1][0] + 10, data) for data in more)
    return ScriptedReply.of_events(events, end=end)


def _json(document: object, status: int = 200) -> ScriptedReply:
    read = ScriptedRead(20, (json.dumps(document).encode(),))
    headers = (("content-type", "application/json"),)
    return ScriptedReply([read], status=status, headers=headers, framing="length")


def _completions() -> ScriptedReply:
    def chunk(text: str, finish_reason: str | None = None) -> str:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
        document = {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": "scripted"}
        return json.dumps({**document, "choices": [choice]})

    events = [(30.0 + 10 * one, chunk("ab")) for one in range(8)]
    return ScriptedReply.of_events([*events, (110.0, chunk("", "stop")), (110.0, "[DONE]")])


def _responses() -> ScriptedReply:
    response: dict[str, object] = {
        "id": "resp_0",
        "object": "response",
        "created_at": 0,
        "model": "scripted",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    usage = {
        "input_tokens": 5,
        "output_tokens": 8,
        "total_tokens": 13,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    text = {"type": "output_text", "text": "ab" * 8, "annotations": []}
    item = {"id": "msg_0", "type": "message", "role": "assistant"}
    done = {**item, "status": "completed", "content": [text]}
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    events: list[tuple[float, dict[str, object]]] = [
        (10, {"type": "response.created", "response": {**response, "status": "in_progress"}}),
        (
            10,
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**item, "status": "in_progress", "content": []},
            },
        ),
        (
            10,
            {
                "type": "response.content_part.added",
                **where,
                "part": {**text, "text": ""},
            },
        ),
        *(
            (30.0 + 10 * one, {"type": "response.output_text.delta", **where, "delta": "ab"})
            for one in range(8)
        ),
        (110, {"type": "response.output_text.done", **where, "text": "ab" * 8}),
        (110, {"type": "response.output_item.done", "output_index": 0, "item": done}),
        (
            110,
            {
                "type": "response.completed",
                "response": {**response, "status": "completed", "output": [done], "usage": usage},
            },
        ),
    ]
    reads = [
        ScriptedRead(
            t_ms,
            (
                f"event: {event['type']}\ndata: "
                f"{json.dumps({**event, 'sequence_number': number})}\n\n".encode(),
            ),
        )
        for number, (t_ms, event) in enumerate(events)
    ]
    return ScriptedReply(reads)


def _whole() -> ScriptedReply:
    message = {"role": "assistant", "content": "abab"}
    return _json(
        {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        }
    )


_ERROR = json.dumps(
    {"error": {"message": "out of memory", "type": "server_error", "code": "internal_error"}}
)
_LIMIT = json.dumps(
    {"error": {"message": "slow down", "type": "rate_limit_exceeded", "code": "rate_limit"}}
)

FIRST_TOKEN = Scenario("first token", "consume", _prelude())
SLOW = Scenario("slow consumer", "consume", _even(), {"pause_ms": PAUSE_MS})
FAST = Scenario("fast consumer", "consume", _even())
USAGE = Scenario("usage asked for", "consume", _short(), {"usage": True})


def _exit(
    name: str,
    action: str,
    reply: ScriptedReply,
    *,
    is_error: bool | None,
    hows: Sequence[str] = HOWS,
) -> Scenario:
    return Scenario(name, action, reply, hows=hows, is_error=is_error, then=_short())


EXITS = (
    _exit("read to the end", "consume", _short(), is_error=False),
    _exit("error object in a 200 stream", "consume", _broken_off("eof", _ERROR), is_error=True),
    _exit("connection reset", "consume", _broken_off("reset"), is_error=True),
    _exit("HTTP 429", "consume", _json(json.loads(_LIMIT), status=429), is_error=True),
    _exit("task cancelled", "cancel", _broken_off("hang"), is_error=True, hows=("async",)),
    _exit("close()", "close", _broken_off("hang"), is_error=False),
    _exit("leaving `with`", "leave_with", _broken_off("hang"), is_error=False),
    _exit("user's exception in `with`", "raise_in_with", _broken_off("hang"), is_error=None),
    _exit("break, then dropped", "break_and_drop", _broken_off("hang"), is_error=None),
    _exit("body ends without a finish", "consume", _broken_off("eof"), is_error=None),
)

SURFACES = (
    Scenario("with_raw_response", "raw", _short()),
    Scenario("with_streaming_response", "streaming_response", _short()),
    Scenario(".stream() helper", "helper", _short()),
    Scenario("legacy completions", "completions", _completions()),
    Scenario("Responses API", "responses", _responses()),
    Scenario("not streamed", "not_streamed", _whole()),
)

SCENARIOS = (FIRST_TOKEN, FAST, SLOW, USAGE, *EXITS, *SURFACES)
