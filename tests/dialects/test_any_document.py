"""No document makes a decoder raise, whatever its form, and what every dialect does alike."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.framing import Frame
from phasemeter.dialects import BUILTIN

_KEYS = [
    "choices",
    "delta",
    "message",
    "content",
    "index",
    "usage",
    "error",
    "code",
    "tool_calls",
    "function",
    "name",
    "reasoning",
    "audio",
    "text",
    "logprobs",
    "token_ids",
    "completion_tokens",
    "prompt_tokens_details",
    "metrics",
    "x_groq",
    "object",
    "type",
    "finish_reason",
    "timings",
    "cache_n",
    "model",
    "refusal",
    "response",
    "item",
    "part",
    "output",
    "summary",
    "status",
    "arguments",
    "incomplete_details",
    "reason",
    "input_tokens",
    "output_tokens",
    "content_block",
    "stop_reason",
    "partial_json",
    "thinking",
    "amazon-bedrock-invocationMetrics",
    "done",
    "done_reason",
    "eval_count",
    "prompt_eval_count",
    "total_duration",
    "candidates",
    "parts",
    "thought",
    "functionCall",
    "inlineData",
    "mimeType",
    "data",
    "usageMetadata",
    "promptTokenCount",
    "thoughtsTokenCount",
    "promptFeedback",
    "blockReason",
    "logprobsResult",
    "chosenCandidates",
    "modelVersion",
    "token",
    "generated_text",
    "details",
    "generated_tokens",
    "tokens",
    "stop",
    "stop_type",
    "tokens_predicted",
    "completion_probabilities",
]
_TYPES = [
    "response.output_text.delta",
    "response.completed",
    "response.failed",
    "response.output_item.added",
    "response.content_part.added",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "message_stop",
    "message",
    "text_delta",
    "thinking",
    "text",
    "tool_use",
    "function_call",
    "output_text",
    "error",
    "response",
]
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(_TYPES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4)
        | st.builds(
            lambda kind, rest: {**rest, "type": kind},
            st.sampled_from(_TYPES),
            st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3),
        )
    ),
    max_leaves=20,
)


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(BUILTIN),
    st.lists(_JSON, min_size=1, max_size=3),
    st.sampled_from([None, "error", "message_start", "response.output_text.delta"]),
    st.booleans(),
)
def test_no_json_document_makes_a_decoder_raise(dialect, documents, event, is_error):
    decoder = dialect.decoder()

    for document in documents:
        decoded = decoder.decode(Frame(json.dumps(document), event, is_error))

        assert decoded.finish_reason is None or decoded.finish_reason
        assert {part.choice for part in decoded.parts} <= set(decoded.choices)
        assert all(part.tokens is None or part.tokens > 0 for part in decoded.parts)


@pytest.mark.parametrize("dialect", BUILTIN, ids=lambda one: one.name)
@pytest.mark.parametrize("opening", ["[", '{"a":', '{"content":[', '{"delta":[', '{"error":['])
@pytest.mark.parametrize("depth", [50, 300, 900, 100_000])
def test_no_depth_of_nesting_makes_a_decoder_raise(dialect, opening, depth):
    closing = "".join({"[": "]", "{": "}"}[one] for one in reversed(opening) if one in "[{")
    text = opening * depth + "1" + closing * depth
    frames = [Frame(text), Frame('{"choices":[{"delta":{"reasoning":' + text + "}}]}")]
    frames.append(Frame('{"type":"response.output_text.delta","delta":' + text + "}"))

    for frame in frames:
        dialect.decoder().decode(frame)


@pytest.mark.parametrize("dialect", BUILTIN, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "text", ["", " ", "not JSON", "[1]", "null", '"x"', "{}", '{"error":null}']
)
def test_what_is_not_understood_is_an_event_that_says_nothing(dialect, text):
    event = dialect.decoder().decode(Frame(text))

    assert (list(event.parts), event.finish_reason, event.error_type) == ([], None, None)
    assert (event.terminal, event.done, event.model) == (False, False, None)


@pytest.mark.parametrize("dialect", BUILTIN, ids=lambda one: one.name)
def test_the_end_mark_ends_every_dialect(dialect):
    event = dialect.decoder().decode(Frame(" [DONE] "))

    assert (event.terminal, event.done) == (True, True)


@pytest.mark.parametrize("dialect", BUILTIN, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("document", "frame", "expected"),
    [
        ({"error": "gone"}, {}, "unknown"),
        ({"error": {"code": 503, "status": "UNAVAILABLE"}}, {}, "overloaded"),
        ({"error": {"type": "overloaded_error"}, "type": "error"}, {}, "overloaded"),
        ({"error": "full", "error_type": "overloaded"}, {}, "overloaded"),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "x"}, {}, "rate_limit"),
        ({"code": 400, "message": "x"}, {"event": "error"}, "invalid_request"),
        ({"code": 500, "message": "x"}, {"is_error": True}, "server_error"),
    ],
)
def test_an_error_is_seen_in_every_dialect(dialect, document, frame, expected):
    event = dialect.decoder().decode(Frame(json.dumps(document), **frame))

    assert event.error_type == expected
