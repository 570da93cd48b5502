"""What items of all sorts of iterators say: by shape, and with the chunk classes of real libraries."""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import phasemeter
from phasemeter.core.timeline import Outcome
from tests.clients import wires


def timed(items, **options):
    """Iterate over items; the Timeline."""
    timelines = []
    meter = phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)])
    assert list(meter.time_stream(items, **options)) == items
    (timeline,) = timelines
    return timeline


def kinds(timeline):
    return [event.kind for event in timeline.events]


def chunk(content=None, finish=None, **delta):
    fields = SimpleNamespace(content=content, **delta)
    choice = SimpleNamespace(index=0, delta=fields, finish_reason=finish)
    return SimpleNamespace(object="chat.completion.chunk", model="s", choices=[choice], usage=None)


def call(name="f", arguments=""):
    function = SimpleNamespace(name=name, arguments=arguments)
    return [SimpleNamespace(index=0, id="c", function=function)]


@dataclasses.dataclass(slots=True)
class Slotted:
    choices: list


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (["a", "", b"b", b""], ["content", "content"]),
        ([{"text": "a"}, {"text": ""}, {"content": "b"}], ["content", "content"]),
        ([SimpleNamespace(text="a"), SimpleNamespace(content=None), 7], ["content"]),
        (
            [chunk(""), chunk(reasoning_content="r"), chunk("a"), chunk(finish="stop")],
            ["reasoning", "content"],
        ),
        ([chunk(tool_calls=call()), chunk(finish="tool_calls")], ["tool_call"]),
        ([{"choices": [{"text": "a", "finish_reason": "length"}]}], ["content"]),
        (
            [Slotted([{"delta": {"content": "a"}, "finish_reason": "stop", "index": 0}])],
            ["content"],
        ),
        ([SimpleNamespace(data=chunk("a", "stop"))], ["content"]),
        (
            [
                SimpleNamespace(type="chunk", chunk=chunk("a", "stop")),
                SimpleNamespace(type="content.done", content="a"),
            ],
            ["content"],
        ),
    ],
)
def test_what_an_item_is_by_its_shape(items, expected):
    timeline = timed(items)

    assert kinds(timeline) == expected
    assert timeline.outcome is Outcome.OK


def test_chunks_that_do_not_say_that_the_answer_is_complete_are_truncated():
    assert timed([chunk("a"), chunk("b")]).outcome is Outcome.TRUNCATED


def test_an_error_item_is_an_error():
    items = [chunk("a"), {"choices": [], "error": {"type": "server_error"}}]

    timeline = timed(items)

    assert (timeline.outcome, timeline.error_type) == (Outcome.ERROR, "server_error")


def test_a_repeated_message_is_not_counted_again():
    """The dialect's own rule: a whole message after deltas repeats them."""
    whole = {"object": "chat.completion", "choices": [{"message": {"content": "ab"}}]}

    assert kinds(timed([chunk("a"), chunk("b", "stop"), whole])) == ["content", "content"]


def test_an_item_that_cannot_be_looked_into_is_an_event_without_a_token():
    """It refers to itself; the application gets it all the same."""
    odd = chunk("a")
    odd.choices.append(odd)

    assert timed([odd, "b"]).events[0].kind == "content"


@pytest.mark.parametrize(
    ("items", "expected", "usage"),
    [
        (
            [
                {"message": {"thinking": "t"}, "done": False},
                {"message": {"content": "a"}, "done": False},
                {"message": {"content": ""}, "done": True, "done_reason": "stop", "eval_count": 2},
            ],
            ["reasoning", "content"],
            2,
        ),
        (
            [{"response": "a", "done": False}, {"response": "", "done": True, "eval_count": 1}],
            ["content"],
            1,
        ),
        (
            [
                {"candidates": [{"content": {"parts": [{"text": "t", "thought": True}]}}]},
                {
                    "candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}],
                    "usageMetadata": {"candidatesTokenCount": 1, "thoughtsTokenCount": 1},
                },
            ],
            ["reasoning", "content"],
            2,
        ),
        (
            [
                {"token": {"id": 1, "text": "a", "special": False}},
                {
                    "token": {"id": 2, "text": "b", "special": False},
                    "generated_text": "ab",
                    "details": {"finish_reason": "length", "generated_tokens": 2},
                },
            ],
            ["content", "content"],
            2,
        ),
    ],
    ids=["ollama chat", "ollama generate", "gemini", "tgi"],
)
def test_documents_of_other_wires_are_read_by_their_dialects(items, expected, usage):
    timeline = timed(items)

    assert kinds(timeline) == expected
    assert timeline.outcome is Outcome.OK
    assert timeline.usage.output_tokens == usage


@pytest.mark.parametrize("wire", [wires.CHAT, wires.COMPLETIONS, wires.RESPONSES, wires.MESSAGES])
def test_decoded_events_say_what_their_bytes_say(wire):
    items = [wires.document_of(event) for event in wire.events if b"[DONE]" not in event]

    timeline = timed(items)

    assert kinds(timeline) == ["content"] * wires.TOKENS
    assert timeline.outcome is Outcome.OK
    assert timeline.response_model == "scripted"


def documented_kind_of(name):
    """The adapter functions that docs/sdk.md shows."""
    text = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text()
    code = next(one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if name in one)
    scope = {}
    exec(code.partition("\n\n\nstream =")[0], scope)
    return scope["kind_of"]


def test_the_documented_adapter_for_bedrock_reads_its_events():
    items = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"delta": {"reasoningContent": {"text": "r"}}}},
        {"contentBlockDelta": {"delta": {"text": "a"}}},
        {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}},
        {"messageStop": {"stopReason": "end_turn"}},
    ]

    timeline = timed(items, kind_of=documented_kind_of("contentBlockDelta"))

    assert kinds(timeline) == ["reasoning", "content", "tool_call"]


def test_the_documented_adapter_for_langgraph_reads_its_pairs():
    def part(content="", calls=(), **more):
        chunk = SimpleNamespace(content=content, tool_call_chunks=calls, additional_kwargs=more)
        return chunk, {"node": "n"}

    items = [part(), part(reasoning_content="r"), part("a"), part(calls=[{"name": "f"}])]

    timeline = timed(items, kind_of=documented_kind_of("chunk, _ = pair"))

    assert kinds(timeline) == ["reasoning", "content", "tool_call"]


# With the libraries' own classes, where they are installed.


def test_litellm():
    types = pytest.importorskip("litellm.types.utils")

    def part(finish=None, **delta):
        choice = types.StreamingChoices(delta=types.Delta(**delta), finish_reason=finish)
        return types.ModelResponseStream(choices=[choice], model="m")

    items = [part(role="assistant", content=""), part(reasoning_content="r"), part(content="a")]
    timeline = timed([*items, part(finish="stop")])

    assert kinds(timeline) == ["reasoning", "content"]
    assert (timeline.outcome, timeline.response_model) == (Outcome.OK, "m")


def test_the_ollama_client():
    ollama = pytest.importorskip("ollama")
    message = ollama.Message

    items = [
        ollama.ChatResponse(message=message(role="assistant", thinking="t"), done=False),
        ollama.ChatResponse(message=message(role="assistant", content="a"), done=False),
        ollama.ChatResponse(
            message=message(role="assistant", content=""),
            done=True,
            done_reason="stop",
            eval_count=2,
        ),
    ]
    timeline = timed(items)

    assert kinds(timeline) == ["reasoning", "content"]
    assert (timeline.outcome, timeline.usage.output_tokens) == (Outcome.OK, 2)


def test_google_genai():
    types = pytest.importorskip("google.genai.types")

    def part(text, *, finish=None, **more):
        content = types.Content(role="model", parts=[types.Part(text=text, **more)])
        return types.GenerateContentResponse(
            candidates=[types.Candidate(content=content, finish_reason=finish, index=0)],
            model_version="g",
            usage_metadata=types.GenerateContentResponseUsageMetadata(candidates_token_count=1),
        )

    timeline = timed([part("t", thought=True), part("a"), part("", finish="STOP")])

    assert kinds(timeline) == ["reasoning", "content"]
    assert (timeline.outcome, timeline.response_model) == (Outcome.OK, "g")
    assert timeline.usage.output_tokens == 1


def test_langchain_messages():
    messages = pytest.importorskip("langchain_core.messages")
    part = messages.AIMessageChunk
    call = {"name": "f", "args": "", "id": "1", "index": 0, "type": "tool_call_chunk"}

    items = [
        part(content=""),
        part(content="", additional_kwargs={"reasoning_content": "r"}),
        part(content="a"),
        part(content=[{"type": "text", "text": "b", "index": 0}]),
        part(content=[{"type": "thinking", "thinking": "t", "index": 1}]),
        part(content="", tool_call_chunks=[call]),
        part(content="", response_metadata={"finish_reason": "stop", "model_name": "m"}),
    ]
    timeline = timed(items)

    assert kinds(timeline) == ["reasoning", "content", "content", "reasoning", "tool_call"]
    assert (timeline.outcome, timeline.response_model) == (Outcome.OK, "m")


def test_the_mistral_client():
    models = pytest.importorskip("mistralai.client.models")
    choice = models.CompletionResponseStreamChoice
    delta = models.DeltaMessage

    def part(text, finish):
        one = choice(index=0, delta=delta(content=text), finish_reason=finish)
        return models.CompletionEvent(data=models.CompletionChunk(id="1", model="m", choices=[one]))

    timeline = timed([part("", None), part("a", None), part("", "stop")])

    assert kinds(timeline) == ["content"]
    assert (timeline.outcome, timeline.response_model) == (Outcome.OK, "m")


def test_huggingface_hub():
    types = pytest.importorskip("huggingface_hub")

    token = types.TextGenerationStreamOutputToken(id=1, logprob=0.0, special=False, text="a")
    details = types.TextGenerationStreamOutputStreamDetails(
        finish_reason="length", generated_tokens=1, input_length=3
    )
    items = [
        types.TextGenerationStreamOutput(index=1, token=token),
        types.TextGenerationStreamOutput(
            index=2, token=token, generated_text="aa", details=details
        ),
    ]
    timeline = timed(items)

    assert kinds(timeline) == ["content", "content"]
    assert timeline.outcome is Outcome.OK
