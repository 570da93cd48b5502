"""Responses events: what is generated text, how a response ends, what it counts."""

import pytest

from phasemeter.core.timeline import Usage
from tests.dialects.decoding import decode_all, kinds_of


def decode(document):
    return decode_all("openai.responses", document)[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("output_text", ["content"]),
        ("refusal", ["refusal"]),
        ("reasoning_text", ["reasoning"]),
        ("reasoning_summary_text", ["reasoning"]),
        ("function_call_arguments", ["tool_call"]),
        ("custom_tool_call_input", ["tool_call"]),
        ("mcp_call_arguments", ["tool_call"]),
        ("code_interpreter_call_code", ["tool_call"]),
        ("shell_call_command", ["tool_call"]),
        ("audio", ["audio"]),
        ("audio.transcript", ["audio"]),
        ("shell_call_output_content", []),
        ("something_new", []),
    ],
)
def test_a_delta_is_generated_text_of_its_kind_unless_it_is_empty(name, expected):
    for delta, kinds in ((" ", expected), ("", []), (None, []), ([], [])):
        event = decode({"type": f"response.{name}.delta", "delta": delta})

        assert kinds_of(event) == kinds


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "function_call", "name": "f", "arguments": ""}, ["tool_call"]),
        ({"type": "function_call", "name": "", "arguments": ""}, []),
        ({"type": "custom_tool_call", "input": "x"}, ["tool_call"]),
        ({"type": "web_search_call", "name": "x"}, []),
        ({"type": "message", "content": []}, []),
        ({"type": "message", "content": [{"type": "output_text", "text": "a"}]}, ["content"]),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}, ["reasoning"]),
        ({"type": "reasoning", "encrypted_content": "gAAA"}, []),
        (None, []),
    ],
)
def test_an_added_item_counts_by_the_text_in_it_and_a_done_one_never(item, expected):
    assert kinds_of(decode({"type": "response.output_item.added", "item": item})) == expected
    assert kinds_of(decode({"type": "response.output_item.done", "item": item})) == []


def test_the_ends_of_a_response():
    """completed and incomplete are terminal; the reason of an incomplete one is its finish."""
    completed = decode({"type": "response.completed", "response": {"status": "completed"}})
    details = {"incomplete_details": {"reason": "content_filter"}}
    incomplete = decode({"type": "response.incomplete", "response": details})
    untold = decode({"type": "response.incomplete", "response": {}})
    failed = decode({"type": "response.failed", "response": {"error": {"code": "server_error"}}})

    ends = [(one.terminal, one.finish_reason) for one in (completed, incomplete, untold, failed)]
    assert ends == [(True, "completed"), (True, "content_filter"), (True, None), (False, None)]
    assert failed.error_type == "server_error"


def test_a_response_that_is_only_announced_does_not_end():
    event = decode({"type": "response.in_progress", "response": {"status": "completed"}})

    assert (event.terminal, event.finish_reason) == (False, None)


def test_reasoning_outside_the_output_count_is_added():
    """total 30 = input 10 + output 8 + reasoning 12, so 20 tokens were generated."""
    usage = {"input_tokens": 10, "output_tokens": 8, "total_tokens": 30}
    usage |= {"output_tokens_details": {"reasoning_tokens": 12}}
    usage |= {"input_tokens_details": {"cached_tokens": 6}}
    event = decode({"type": "response.completed", "response": {"usage": usage, "model": "m"}})

    assert event.usage == Usage(10, 6, 20, 12)
    assert event.model == "m"


def test_a_running_usage_beside_the_delta_tells_its_tokens_so_far():
    document = {"type": "response.output_text.delta", "delta": "a", "usage": {"output_tokens": 4}}

    assert decode(document).running_output_tokens == 4


@pytest.mark.parametrize("streamed", [True, False])
def test_times_that_vllm_tells_come_with_the_last_event(streamed):
    metrics = {"time_to_first_token_ms": 10.5, "generation_time_ms": 39.9, "speculative": None}
    response = {"object": "response", "status": "completed", "metrics": metrics}

    event = decode({"type": "response.completed", "response": response} if streamed else response)

    assert event.server == {"time_to_first_token_ms": 10.5, "generation_time_ms": 39.9}
