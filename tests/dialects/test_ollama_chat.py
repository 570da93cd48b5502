"""Ollama's lines: text, the last line's counts and durations."""

import pytest

from phasemeter.core.timeline import Usage
from tests.dialects.decoding import decode_all, kinds_of


def decode(document):
    return decode_all("ollama.chat", document)[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"message": {"content": " "}}, ["content"]),
        ({"message": {"content": "", "thinking": "a"}}, ["reasoning"]),
        ({"message": {"content": "b", "thinking": "a"}}, ["reasoning", "content"]),
        (
            {"message": {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}},
            ["tool_call"],
        ),
        ({"message": {"tool_calls": [{"function": {"name": "", "arguments": {}}}]}}, []),
        ({"message": {}, "response": "a"}, []),
        ({"response": "a"}, ["content"]),
        ({"response": "", "thinking": "a"}, ["reasoning"]),
        ({"response": None, "message": None}, []),
    ],
)
def test_only_non_empty_generated_text_is_a_token_part(line, expected):
    assert kinds_of(decode(line)) == expected


def test_the_last_line_tells_counts_and_durations_in_ns_by_their_own_names():
    counts = {"prompt_eval_count": 26, "eval_count": 6}
    durations = {"total_duration": 930, "load_duration": 500, "eval_duration": None}
    event = decode({"model": "m", "done": True, "done_reason": "stop", **counts, **durations})

    assert event.usage == Usage(input_tokens=26, output_tokens=6)
    assert event.server == {"total_duration": 930, "load_duration": 500}
    assert (event.terminal, event.finish_reason, event.model) == (True, "stop", "m")


@pytest.mark.parametrize("done", [False, None, "true", 1])
def test_only_done_true_is_the_terminal_mark(done):
    event = decode({"done": done, "done_reason": "stop"})

    assert (event.terminal, event.finish_reason) == (False, None)
