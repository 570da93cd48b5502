"""The bytes of answers: OpenAI's chat and completions, and SGLang's own generate, streamed or whole.

A token is one of `WORDS` with a blank before it, so a tokenizer made from these words counts the same.
The first event also carries the role and the last one the finish reason, as engines do that send no
event without text: then no tool can take such an event for a token.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

Api = Literal["chat", "completions", "generate"]

WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty"),
    *("knoll", "larch", "maple", "north", "ocean", "pearl", "quartz", "raven", "shore", "tulip"),
    *("umber", "vista", "wheat", "xenon", "yacht", "zebra", "acorn", "basil", "coral", "dune"),
)
_OBJECTS = {
    ("chat", True): "chat.completion.chunk",
    ("chat", False): "chat.completion",
    ("completions", True): "text_completion",
    ("completions", False): "text_completion",
}
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for.

    Attributes:
        api: Which interface.
        model: Model name, echoed.
        tokens: Tokens to generate.
        prompt_tokens: Length of the prompt: token ids, or about the bytes of its text.
        stream: Server-sent events instead of one document.
        include_usage: A last event with the counts.
        continuous_usage: Counts in every event.
        cached_tokens: Prompt tokens out of a cache, to be told with the counts; None to tell nothing.
    """

    api: Api
    model: str
    tokens: int
    prompt_tokens: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    cached_tokens: int | None = None


def read_asked(api: Api, document: dict[str, object], default_tokens: int) -> Asked:
    """Return what a request body asks for; what is missing or of another type takes its default."""
    options = document.get("stream_options")
    options = options if isinstance(options, dict) else {}
    sampling = document.get("sampling_params")
    sampling = sampling if isinstance(sampling, dict) else {}
    lengths = [
        document.get("max_completion_tokens"),
        document.get("max_tokens"),
        sampling.get("max_new_tokens"),
    ]
    tokens = next((one for one in lengths if isinstance(one, int) and one > 0), default_tokens)
    return Asked(
        api=api,
        model=str(document.get("model") or "truth"),
        tokens=tokens,
        prompt_tokens=_prompt_tokens(document),
        stream=document.get("stream") is True,
        include_usage=options.get("include_usage") is True,
        continuous_usage=options.get("continuous_usage_stats") is True,
    )


def _prompt_tokens(document: dict[str, object]) -> int:
    for name in ("prompt", "text", "input_ids"):
        prompt = document.get(name)
        if isinstance(prompt, str):
            return _text_tokens(prompt)
        if isinstance(prompt, list):
            return len(prompt)
    messages = document.get("messages")
    if not isinstance(messages, list):
        return 0
    contents = [one.get("content") for one in messages if isinstance(one, dict)]
    return sum(_text_tokens(str(content)) for content in contents)


def _text_tokens(text: str) -> int:
    """Return about the count of `benchmarks.hub_cache`'s tokenizer: a byte each, blanks join a word."""
    return len(text.encode()) - text.count(" ")


def text_of(first: int, tokens: int) -> str:
    """Return the text of `tokens` tokens from number `first` on."""
    return "".join(f" {WORDS[number % len(WORDS)]}" for number in range(first, first + tokens))


def usage_of(asked: Asked, tokens: int) -> dict[str, object]:
    """Return the counts after `tokens` generated tokens."""
    counts: dict[str, object] = {
        "prompt_tokens": asked.prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": asked.prompt_tokens + tokens,
    }
    if asked.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": asked.cached_tokens}
    return counts


class EventWriter:
    """Writes the events of one streamed answer as HTTP chunks, one event each."""

    def __init__(self, asked: Asked, response_id: str, created_s: int) -> None:
        self._asked = asked
        self._response_id = response_id
        self._text = ""
        head = _document_head(asked, response_id, created_s) if asked.api != "generate" else {}
        self._head = head
        opened = json.dumps(head, separators=(",", ":"))[:-1]
        chat = asked.api == "chat"
        self._before = f"data: {opened}," + (
            '"choices":[{"index":0,"delta":{"content":"'
            if chat
            else '"choices":[{"index":0,"text":"'
        )
        self._role = '","role":"assistant' if chat else ""
        self._between = '"},"finish_reason":' if chat else '","logprobs":null,"finish_reason":'

    def token_event(self, first: int, tokens: int, emit_ns: int | None) -> bytes:
        """Return the event of `tokens` tokens from number `first` on.

        Args:
            first: Number of the event's first token, from 0.
            tokens: Tokens in the event.
            emit_ns: Time to put into the event, or None.
        """
        done = first + tokens
        asked = self._asked
        if asked.api == "generate":
            self._text += text_of(first, tokens)
            document = generated(asked, self._response_id, self._text, done)
            stamp = {} if emit_ns is None else {"emit_ns": emit_ns}
            return chunk(b"data: " + json.dumps({**document, **stamp}).encode() + b"\n\n")
        extra = "" if emit_ns is None else f',"emit_ns":{emit_ns}'
        if asked.continuous_usage:
            extra += (
                f',"usage":{{"prompt_tokens":{asked.prompt_tokens},"completion_tokens":{done},'
                f'"total_tokens":{asked.prompt_tokens + done}}}'
            )
        role = "" if first else self._role
        finish = '"length"' if done == asked.tokens else "null"
        text = text_of(first, tokens)
        line = f"{self._before}{text}{role}{self._between}{finish}}}]{extra}}}\n\n"
        return chunk(line.encode())

    def tail(self) -> bytes:
        """Return what follows the last token: the counts if asked for, the end mark, the end of the body."""
        asked = self._asked
        counts = b""
        if asked.include_usage and asked.api != "generate":
            document = {**self._head, "choices": [], "usage": usage_of(asked, asked.tokens)}
            counts = chunk(b"data: " + json.dumps(document).encode() + b"\n\n")
        return counts + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def _document_head(asked: Asked, response_id: str, created_s: int) -> dict[str, object]:
    return {
        "id": response_id,
        "object": _OBJECTS[asked.api, asked.stream],
        "created": created_s,
        "model": asked.model,
    }


def whole_answer(asked: Asked, response_id: str, created_s: int) -> bytes:
    """Return the answer to a request without streaming, with its HTTP head."""
    text = text_of(0, asked.tokens)
    if asked.api == "generate":
        return json_answer(200, generated(asked, response_id, text, asked.tokens))
    choice: dict[str, object] = {"index": 0, "finish_reason": "length"}
    if asked.api == "chat":
        choice["message"] = {"role": "assistant", "content": text}
    else:
        choice |= {"text": text, "logprobs": None}
    head = _document_head(asked, response_id, created_s)
    return json_answer(200, {**head, "choices": [choice], "usage": usage_of(asked, asked.tokens)})


def generated(asked: Asked, response_id: str, text: str, tokens: int) -> dict[str, object]:
    """Return SGLang's document after `tokens` tokens; its text is all of the text so far."""
    ended = {"type": "length", "length": tokens} if tokens == asked.tokens else None
    return {
        "text": text,
        "meta_info": {
            "id": response_id,
            "finish_reason": ended,
            "prompt_tokens": asked.prompt_tokens,
            "completion_tokens": tokens,
            "cached_tokens": asked.cached_tokens or 0,
        },
    }


def chunk(data: bytes) -> bytes:
    """Return one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream_head() -> bytes:
    """Return the HTTP head of a streamed answer."""
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
        b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
    )


def json_answer(status: int, document: object) -> bytes:
    """Return a JSON answer with its HTTP head."""
    body = json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def error_answer(status: int, message: str) -> bytes:
    """Return an error, shaped as OpenAI's."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return json_answer(status, {"error": error})
