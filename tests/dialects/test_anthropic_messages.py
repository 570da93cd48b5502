"""Messages events: what is generated text, and counts that come in several events."""

import pytest

from phasemeter.core.timeline import Usage
from tests.dialects.decoding import decode_all, kinds_of


def decode(*documents):
    return decode_all("anthropic.messages", *documents)


def start(**usage):
    return {"type": "message_start", "message": {"model": "m", "usage": usage}}


def end(**usage):
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"type": "text_delta", "text": " "}, ["content"]),
        ({"type": "text_delta", "text": ""}, []),
        ({"type": "thinking_delta", "thinking": "a"}, ["reasoning"]),
        ({"type": "thinking_delta", "thinking": None}, []),
        ({"type": "input_json_delta", "partial_json": "{"}, ["tool_call"]),
        ({"type": "input_json_delta", "partial_json": ""}, []),
        ({"type": "signature_delta", "signature": "c2ln"}, []),
        ({"type": "citations_delta", "citation": {"cited_text": "a"}}, []),
        ({"type": "something_new", "text": "a"}, []),
        ({"text": "a"}, []),
        (None, []),
    ],
)
def test_only_text_of_a_known_delta_is_generated_text(delta, expected):
    assert kinds_of(decode({"type": "content_block_delta", "delta": delta})[0]) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "text", "text": ""}, []),
        ({"type": "text", "text": "a"}, ["content"]),
        ({"type": "thinking", "thinking": "a", "signature": ""}, ["reasoning"]),
        ({"type": "redacted_thinking", "data": "EmwK"}, []),
        ({"type": "tool_use", "name": "f", "input": {}}, ["tool_call"]),
        ({"type": "tool_use", "name": "", "input": {"x": 1}}, ["tool_call"]),
        ({"type": "mcp_tool_use", "name": "f"}, ["tool_call"]),
        ({"type": "tool_use", "name": "", "input": {}}, []),
        ({"type": "web_search_tool_result", "content": [{"title": "a"}]}, []),
    ],
)
def test_a_block_may_start_with_text(block, expected):
    assert kinds_of(decode({"type": "content_block_start", "content_block": block})[0]) == expected


def test_the_whole_prompt_is_fresh_plus_cache_read_plus_cache_creation():
    """4 + 50 + 100 = 154, told in two events; the placeholder output count is never used."""
    first, last = decode(
        start(input_tokens=4, cache_creation_input_tokens=100, output_tokens=1),
        end(cache_read_input_tokens=50, input_tokens=None, output_tokens=7),
    )

    assert first.usage == Usage(input_tokens=104)
    assert last.usage == Usage(input_tokens=154, cached_input_tokens=50, output_tokens=7)


def test_without_the_fresh_part_the_prompt_is_unknown():
    assert decode(start(cache_read_input_tokens=50))[0].usage == Usage(cached_input_tokens=50)


def test_a_vendors_latencies_are_kept_by_their_own_names():
    metrics = {"invocationLatency": 533, "firstByteLatency": 501, "inputTokenCount": 31}
    event = decode({"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics})[0]

    assert event.server == {"invocationLatency": 533, "firstByteLatency": 501}
    assert event.usage == Usage(input_tokens=31)
    assert event.terminal


def test_the_model_is_the_one_of_the_started_message():
    assert decode(start())[0].model == "m"
