"""Answer bodies of the two OpenAI endpoints, whole and as server-sent events, shaped as vLLM's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from phasemeter.lab.asgi import to_json_bytes
from phasemeter.lab.tokenizer import TOKEN_TEXTS, decode

if TYPE_CHECKING:
    from phasemeter.lab.protocol import Call
    from phasemeter.lab.request import FinishReason, Request, TokenOut

Json = dict[str, object]

DONE_EVENT = b"data: [DONE]\n\n"


class AnswerFormat:
    """Formats the answer to one request.

    Args:
        call: What was asked.
        request: The request in the engine, whose progress the counts are read from.
        model: Name of the served model.
    """

    def __init__(self, call: Call, request: Request, model: str) -> None:
        self._call = call
        self._request = request
        prefix = "chatcmpl-" if call.chat else "cmpl-"
        self._head: Json = {
            "id": prefix + request.request_id,
            "object": "chat.completion.chunk" if call.chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def role_event(self) -> bytes:
        """Return the event that opens a chat stream; it has no token."""
        delta = {"role": "assistant", "content": ""}
        event = self._head | {"choices": [_chat_choice(delta, None)]}
        if self._call.return_token_ids:
            event["prompt_token_ids"] = self._request.prompt.tolist()
        return self._event(event)

    def token_event(self, output: TokenOut, *, is_first: bool) -> bytes:
        """Return the event of one token."""
        text = TOKEN_TEXTS[output.token]
        if self._call.chat:
            choice = _chat_choice({"content": text}, output.finish_reason)
        else:
            choice = _completion_choice(text, output.finish_reason)
            if self._call.return_token_ids and is_first:
                choice["prompt_token_ids"] = self._request.prompt.tolist()
        if self._call.return_token_ids:
            choice["token_ids"] = [output.token]
        return self._event(self._head | {"choices": [choice]})

    def usage_event(self) -> bytes:
        """Return the event with the final counts and timings; it has no choice."""
        usage = {"usage": self._usage(), "metrics": timing_metrics(self._request)}
        return _sse(self._head | {"choices": []} | usage)

    def whole(self, finish_reason: FinishReason, kv_transfer_params: Json | None) -> bytes:
        """Return the body of an answer that is not streamed."""
        request = self._request
        text = decode(request.generated)
        choice: Json
        if self._call.chat:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "logprobs": None}
            choice["finish_reason"] = finish_reason
        else:
            choice = _completion_choice(text, finish_reason)
        body = self._head | {"choices": [choice], "usage": self._usage()}
        if self._call.chat:
            body["object"] = "chat.completion"
        if self._call.return_token_ids:
            choice["token_ids"] = request.generated
            holder = body if self._call.chat else choice
            holder["prompt_token_ids"] = request.prompt.tolist()
        body |= {"metrics": timing_metrics(request), "kv_transfer_params": kv_transfer_params}
        return to_json_bytes(body)

    def _event(self, event: Json) -> bytes:
        if self._call.include_usage and self._call.continuous_usage:
            event["usage"] = self._usage()
        return _sse(event)

    def _usage(self) -> Json:
        prompt_tokens, output_tokens = len(self._request.prompt), len(self._request.generated)
        return {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + output_tokens,
            "completion_tokens": output_tokens,
            # True and not unknown: there is no prefix cache.
            "prompt_tokens_details": {"cached_tokens": 0},
        }


def timing_metrics(request: Request) -> dict[str, float | None]:
    """Return vLLM's per-request timings of a finished request, in milliseconds.

    As there, time to first token counts from the schedule, without the queue; generation is first
    to last token; tokens per second are all tokens over schedule to last token. A mean gap of one
    token is None.
    """
    received_ns, scheduled_ns = request.received_ns, request.scheduled_ns
    first_ns, last_ns = request.first_token_ns, request.last_token_ns
    if scheduled_ns is None or first_ns is None or last_ns is None:
        return {}
    gaps = len(request.generated) - 1
    busy_ns = last_ns - scheduled_ns
    return {
        "time_to_first_token_ms": (first_ns - scheduled_ns) / 1e6,
        "generation_time_ms": (last_ns - first_ns) / 1e6,
        "queue_time_ms": (scheduled_ns - received_ns) / 1e6,
        "mean_itl_ms": (last_ns - first_ns) / gaps / 1e6 if gaps else None,
        "tokens_per_second": len(request.generated) * 1e9 / busy_ns if busy_ns else None,
    }


def _sse(event: Json) -> bytes:
    return b"data: " + to_json_bytes(event) + b"\n\n"


def _chat_choice(delta: Json | dict[str, str], finish_reason: FinishReason | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _completion_choice(text: str, finish_reason: FinishReason | None) -> Json:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
