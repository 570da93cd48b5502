"""Chat chunks: what is generated text, what is not, and which counts they tell."""

import json

import pytest

from phasemeter.core.framing import Frame
from phasemeter.core.timeline import Usage
from phasemeter.dialects import by_name


def decode(document, **frame):
    text = document if isinstance(document, str) else json.dumps(document)
    return by_name("openai.chat").decoder().decode(Frame(text, **frame))


def kinds(delta, **choice):
    event = decode({"choices": [{"index": 0, "delta": delta, **choice}]})
    return [part.kind for part in event.parts]


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"role": "assistant"}, []),
        ({"content": ""}, []),
        ({"content": " "}, ["content"]),
        ({"content": [{"type": "text", "text": ""}]}, []),
        ({"content": [{"type": "text", "text": "a"}, "b"]}, ["content"]),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]},
            ["reasoning"],
        ),
        ({"reasoning_content": {"text": "a", "signature": "s"}}, ["reasoning"]),
        ({"reasoning_content": {"signature": "s", "redactedContent": "eA=="}}, []),
        ({"refusal": "no"}, ["refusal"]),
        ({"tool_calls": [{"index": 0, "function": {"arguments": " "}}]}, ["tool_call"]),
        ({"tool_calls": [None, {"function": "odd"}]}, []),
        ({"function_call": {"name": "f", "arguments": ""}}, ["tool_call"]),
        ({"audio": {"transcript": "a"}}, ["audio"]),
        ({"audio": {"id": "a", "expires_at": 5}}, []),
        ([], []),
        ("text", []),
    ],
)
def test_only_non_empty_generated_text_is_a_token_part(delta, expected):
    assert kinds(delta) == expected


def test_a_message_in_a_chunk_is_no_generated_text():
    message = {"role": "assistant", "content": "again"}
    document = {"object": "chat.completion.chunk", "choices": [{"message": message}]}

    assert list(decode(document).parts) == []


def test_reasoning_outside_the_completion_count_is_added_to_the_output():
    """total 20 = prompt 12 + completion 1 + reasoning 7, so 8 tokens were generated."""
    usage = {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 20}
    event = decode({"choices": [], "usage": {**usage, "reasoning_tokens": 7}})

    assert event.usage == Usage(input_tokens=12, output_tokens=8, reasoning_tokens=7)


@pytest.mark.parametrize("count", [True, -1, "5", 5.5, None, [], float("nan")])
def test_a_count_that_is_no_count_is_unknown(count):
    event = decode({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": count}})

    assert event.usage == Usage(input_tokens=3)
    assert event.running_output_tokens is None


@pytest.mark.parametrize(
    ("document", "frame", "expected"),
    [
        ({"error": None, "choices": []}, {}, None),
        ({"error": {}, "choices": []}, {}, None),
        ({"error": {"type": "server_error"}}, {}, "server_error"),
        ({"error": {"code": "429"}}, {}, "rate_limit"),
        ({"error": {"code": "²"}}, {}, "unknown"),
        ({"error": {"code": "9" * 5000}}, {}, "unknown"),
        ({"error": True}, {}, "unknown"),
        ({"object": "error", "code": 400}, {}, "invalid_request"),
        ({"type": "error", "code": "rate_limit_exceeded"}, {}, "rate_limit"),
        ({"choices": [], "x_groq": {"error": "over capacity"}}, {}, "unknown"),
        ({"message": "x", "code": 503}, {"event": "error"}, "overloaded"),
        ({}, {"event": "error"}, "unknown"),
        ("[1]", {"event": "error"}, "unknown"),
        ('"gone"', {"is_error": True}, "unknown"),
        ("not JSON", {"is_error": True}, "unknown"),
        ("not JSON", {}, None),
    ],
)
def test_errors_are_told_in_band_in_many_forms(document, frame, expected):
    assert decode(document, **frame).error_type == expected


def test_servers_tell_their_timings_by_their_own_names():
    """llama.cpp in `timings` (ms and counts), Groq inside the usage (seconds)."""
    timings = {"prompt_ms": 51.0, "predicted_ms": 38.5, "cache_n": 12, "note": "x"}
    usage = {"prompt_tokens": 3, "queue_time": 0.25, "total_time": 0.5, "completion_time": None}
    event = decode({"choices": [], "timings": timings, "x_groq": {"usage": usage}})

    told = {"prompt_ms": 51.0, "predicted_ms": 38.5, "cache_n": 12}
    assert event.server == told | {"queue_time": 0.25, "total_time": 0.5}
    assert event.usage == Usage(input_tokens=3, cached_input_tokens=12)


def test_server_timings_are_kept_only_where_they_are_finite_numbers():
    text = '{"choices":[],"metrics":{"queue_s":0.5,"flag":true,"huge":1' + "0" * 400 + "}}"
    text = text.replace("true", 'true,"odd":NaN,"infinite":1e999,"text":"x"')

    assert decode(text).server == {"queue_s": 0.5}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1" * 10_000])
def test_json_that_the_parser_gives_up_on_is_an_empty_event(text):
    event = decode(text)

    assert (list(event.parts), event.error_type, event.terminal) == ([], None, False)
