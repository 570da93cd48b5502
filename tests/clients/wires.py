"""What servers send in each dialect, and one surface's way of asking for it: data for the client tests.

A wire is a whole answer of five tokens, one a read, 2 ms apart.
"""

import json
from dataclasses import dataclass

from phasemeter.testing import ScriptedRead, ScriptedReply, chat_events

FIRST_MS, GAP_MS, TOKENS = 2, 2, 5
JSON_HEADERS = (("content-type", "application/json"),)


def sse(document, *, named=True):
    """One server-sent event; `named` by the document's type."""
    name = f"event: {document['type']}\n" if named else ""
    return f"{name}data: {json.dumps(document)}\n\n".encode()


def _chat():
    return [f"data: {data}\n\n".encode() for _, data in chat_events(kinds=("content",) * TOKENS)]


def _completions():
    def chunk(text, reason=None):
        choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
        head = {"id": "cmpl-0", "object": "text_completion", "created": 0, "model": "scripted"}
        return sse({**head, "choices": [choice], "type": "x"}, named=False)

    return [*(chunk("ab") for _ in range(TOKENS)), chunk("", "stop"), b"data: [DONE]\n\n"]


def _responses():
    text = "ab" * TOKENS
    part = {"type": "output_text", "text": "", "annotations": []}
    item = {"id": "msg_0", "type": "message", "role": "assistant", "status": "completed"}
    item["content"] = [{**part, "text": text}]
    answer = {
        "id": "resp_0",
        "object": "response",
        "created_at": 0,
        "model": "scripted",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "in_progress",
    }
    usage = {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": TOKENS,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5 + TOKENS,
    }
    whole = {**answer, "status": "completed", "output": [item], "usage": usage}
    place = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    documents = [
        {"type": "response.created", "response": answer},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": part},
        *(
            {"type": "response.output_text.delta", **place, "delta": "ab", "logprobs": []}
            for _ in range(TOKENS)
        ),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    numbered = ({**one, "sequence_number": number} for number, one in enumerate(documents))
    return [sse(one, named=True) for one in numbered]


def _messages():
    start = {
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    }
    delta = {"type": "text_delta", "text": "ab"}
    documents = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for _ in range(TOKENS)),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": TOKENS},
        },
        {"type": "message_stop"},
    ]
    return [sse(one, named=True) for one in documents]


@dataclass(frozen=True)
class Wire:
    """One dialect's answer.

    Attributes:
        dialect: Its name.
        events: Each event's bytes.
        first: Index of the first token's event.
        error: An error event in the middle of a stream.
        error_type: The class that its record has.
        whole: The body of an answer that is not streamed.
    """

    dialect: str
    events: list
    first: int
    error: bytes
    error_type: str
    whole: dict

    def reply(self, **options):
        """The whole answer."""
        return ScriptedReply(self._reads(self.events), **options)

    def cut(self, *, tail=b"", **options):
        """The tokens alone: no finish reason, no end mark; then `tail` in a read of its own."""
        events = self.events[: self.first + TOKENS] + ([tail] if tail else [])
        return ScriptedReply(self._reads(events), **options)

    def not_streamed(self):
        body = json.dumps(self.whole).encode()
        return ScriptedReply([ScriptedRead(2, (body,))], headers=JSON_HEADERS)

    def _reads(self, events):
        times = (FIRST_MS + max(0, index - self.first) * GAP_MS for index in range(len(events)))
        return [ScriptedRead(t_ms, (data,)) for t_ms, data in zip(times, events, strict=True)]


def document_of(event):
    """The JSON document of one server-sent event."""
    return json.loads(event.partition(b"data: ")[2])


_FLAT_ERROR = b'data: {"error":{"message":"no","type":"server_error","code":null}}\n\n'
_USAGE = {"prompt_tokens": 5, "completion_tokens": TOKENS, "total_tokens": 5 + TOKENS}
_HEAD = {"id": "x", "created": 0, "model": "scripted", "usage": _USAGE}

CHAT = Wire(
    "openai.chat",
    _chat(),
    first=1,
    error=_FLAT_ERROR,
    error_type="server_error",
    whole={
        **_HEAD,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi"},
                "finish_reason": "stop",
            }
        ],
    },
)
COMPLETIONS = Wire(
    "openai.completions",
    _completions(),
    first=0,
    error=_FLAT_ERROR,
    error_type="server_error",
    whole={
        **_HEAD,
        "object": "text_completion",
        "choices": [{"index": 0, "text": "hi", "finish_reason": "stop", "logprobs": None}],
    },
)
RESPONSES = Wire(
    "openai.responses",
    _responses(),
    first=3,
    error=(
        b'event: error\ndata: {"type":"error","code":"server_error","message":"no","param":null,'
        b'"sequence_number":9}\n\n'
    ),
    error_type="server_error",
    whole=document_of(_responses()[-1])["response"],
)
MESSAGES = Wire(
    "anthropic.messages",
    _messages(),
    first=2,
    error=(
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error",'
        b'"message":"no"}}\n\n'
    ),
    error_type="overloaded",
    whole={
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": TOKENS},
    },
)
HTTP_ERROR = ScriptedReply(
    [ScriptedRead(0, (b'{"error":{"message":"slow down","type":"rate_limit_exceeded"}}',))],
    status=429,
    headers=JSON_HEADERS,
)
