"""generateContent chunks: parts, candidates, cumulative counts that may be left out."""

import pytest

from phasemeter.core.timeline import Usage
from tests.dialects.decoding import decode_all, kinds_of


def decode(*documents):
    return decode_all("gemini.generate", *documents)


def chunk(*parts, **more):
    return {"candidates": [{"content": {"parts": list(parts)}, **more}]}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"text": " "}, ["content"]),
        ({"text": ""}, []),
        ({"text": "", "thoughtSignature": "c2ln"}, []),
        ({"text": "a", "thought": True}, ["reasoning"]),
        ({"text": "a", "thought": False}, ["content"]),
        ({"functionCall": {"name": "f", "args": {}}}, ["tool_call"]),
        ({"functionCall": {"partialArgs": [{"jsonPath": "$.x"}]}}, ["tool_call"]),
        ({"functionCall": {}}, []),
        ({"executableCode": {"code": "1"}}, ["tool_call"]),
        ({"codeExecutionResult": {"output": "1"}}, []),
        ({"inlineData": {"mimeType": "audio/wav", "data": "AA"}}, ["audio"]),
        ({"inlineData": {"mimeType": "audio/wav", "data": ""}}, []),
        ({"inlineData": {"mimeType": "image/png", "data": "AA"}}, []),
        (None, []),
    ],
)
def test_only_non_empty_generated_text_is_a_token_part(part, expected):
    assert kinds_of(decode(chunk(part))[0]) == expected


def test_parts_of_one_kind_are_one_token_part():
    event = decode(chunk({"text": "b"}, {"text": "a", "thought": True}, {"text": "c"}))[0]

    assert kinds_of(event) == ["reasoning", "content"]


def test_the_output_is_candidates_plus_thoughts_each_by_its_last_count():
    """60 thoughts alone, then 2 + 60, then 5 + 70."""
    events = decode(
        {"usageMetadata": {"promptTokenCount": 10, "thoughtsTokenCount": 60}},
        {"usageMetadata": {"candidatesTokenCount": 2}},
        {"usageMetadata": {"candidatesTokenCount": 5, "thoughtsTokenCount": 70}},
    )

    assert [event.usage.output_tokens for event in events] == [60, 62, 75]
    assert events[-1].usage == Usage(10, None, 75, 70)


def test_a_block_reason_is_the_finish_only_where_there_is_no_candidate():
    feedback = {"promptFeedback": {"blockReason": "SAFETY"}}

    assert decode(feedback)[0].finish_reason == "SAFETY"
    assert decode(chunk({"text": "a"}) | feedback)[0].finish_reason is None
    assert decode(chunk(finishReason="STOP") | feedback)[0].finish_reason == "STOP"


def test_each_candidate_is_a_choice():
    event = decode({"candidates": [{"index": 2}, {}, {"index": -1}, None]})[0]

    assert list(event.choices) == [2, 0, 0]


def test_the_model_is_the_version_that_answered():
    assert decode({"modelVersion": "demo-g-002"})[0].model == "demo-g-002"
