"""Events known by their bytes say what they say when they are parsed."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.repeats import Repeats, Varying
from phasemeter.dialects import by_name

TEXT = st.text(max_size=6) | st.sampled_from(
    ['"', "\\", "\n", '{"content":"x"}', "\u2028", "[DONE]"]
)
COUNT = st.integers(0, 3)


def chat(delta, **fields):
    choice = {"index": 0, "delta": delta, "finish_reason": fields.pop("finish_reason", None)}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [choice],
        **fields,
    }


def running(total):
    return {"prompt_tokens": 3, "total_tokens": 3 + total, "completion_tokens": total}


CHAT = st.one_of(
    st.builds(lambda text: chat({"content": text}), TEXT),
    st.builds(lambda text, hidden: chat({"content": text}, obfuscation=hidden), TEXT, TEXT),
    st.builds(lambda text: chat({"role": "assistant", "content": text}), TEXT),
    st.builds(lambda text: chat({"reasoning_content": text, "content": ""}), TEXT),
    st.builds(
        lambda text, total: chat({"content": text}, usage=running(total)), TEXT, st.integers(0, 40)
    ),
    st.builds(
        lambda text: chat({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}), TEXT
    ),
    st.builds(lambda text, reason: chat({"content": text}, finish_reason=reason), TEXT, TEXT),
    st.just({"object": "chat.completion.chunk", "choices": [], "usage": {"completion_tokens": 9}}),
    st.just(
        chat(
            {"content": "x"},
            usage={"completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 2}},
        )
    ),
    st.just({"error": {"message": "m", "type": "server_error"}}),
)
COMPLETIONS = st.one_of(
    st.builds(
        lambda text, total: {
            "model": "m",
            "choices": [{"index": 0, "text": text}],
            "usage": running(total),
        },
        TEXT,
        COUNT,
    ),
    st.builds(
        lambda text, index: {"choices": [{"index": index, "text": text, "finish_reason": None}]},
        TEXT,
        COUNT,
    ),
)
RESPONSES = st.one_of(
    st.builds(
        lambda text, kind, number: {
            "type": f"response.{kind}.delta",
            "delta": text,
            "sequence_number": number,
        },
        TEXT,
        st.sampled_from(["output_text", "reasoning_text", "refusal"]),
        st.integers(0, 10**20),
    ),
    st.just(
        {
            "type": "response.completed",
            "response": {"status": "completed", "usage": {"output_tokens": 3}},
        }
    ),
)
MESSAGES = st.one_of(
    st.builds(
        lambda text: {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": text},
        },
        TEXT,
    ),
    st.builds(
        lambda text: {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": text},
        },
        TEXT,
    ),
    st.builds(
        lambda count: {"type": "message_delta", "delta": {}, "usage": {"output_tokens": count}},
        COUNT,
    ),
    st.just({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 4}}}),
    st.just({"type": "ping"}),
)
OLLAMA = st.one_of(
    st.builds(
        lambda text, at: {
            "model": "m",
            "created_at": at,
            "message": {"content": text},
            "done": False,
        },
        TEXT,
        TEXT,
    ),
    st.just(
        {
            "model": "m",
            "message": {"content": ""},
            "done": True,
            "done_reason": "stop",
            "eval_count": 4,
        }
    ),
)
DOCUMENTS = {
    "openai.chat": CHAT,
    "openai.completions": COMPLETIONS,
    "openai.responses": RESPONSES,
    "anthropic.messages": MESSAGES,
    "ollama.chat": OLLAMA,
}


def parsing_all(dialect):
    """The same dialect without anything that may vary: every event is parsed."""
    names = ("name", "operation", "path_suffixes", "json_lines", "decoder")
    return SimpleNamespace(**{name: getattr(dialect, name) for name in names}, varying=Varying())


def timeline(dialect, reads):
    meter = StreamMeter(dialect, request_id="r", model="m", started_ns=0, stamp_source="recv")
    meter.on_headers(1, 200, {})
    for t_ns, read in enumerate(reads, start=2):
        meter.on_read(t_ns, read)
    return meter.finish(10**6, StreamEnd.EOF)


@st.composite
def bodies(draw):
    name = draw(st.sampled_from(sorted(DOCUMENTS)))
    documents = draw(st.lists(DOCUMENTS[name], min_size=1, max_size=12))
    dialect = by_name(name)
    end = b"\n" if dialect.json_lines else draw(st.sampled_from([b"\n\n", b"\r\n\r\n"]))
    start = b"" if dialect.json_lines else b"data: "
    ascii_only, separators = draw(st.booleans()), draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    lines = [
        json.dumps(one, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "replace")
        for one in documents
    ]
    return dialect, [start + line + end for line in lines]


@settings(max_examples=600, deadline=None)
@given(bodies(), st.data())
def test_known_by_bytes_is_as_if_parsed(body, data):
    """Any stream, also one with bytes overwritten at random."""
    dialect, reads = body
    if data.draw(st.booleans()):
        spoiled = bytearray(reads[data.draw(st.integers(0, len(reads) - 1))])
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
        reads.insert(data.draw(st.integers(0, len(reads))), bytes(spoiled))

    assert timeline(dialect, reads) == timeline(parsing_all(dialect), reads)


def learned(document, *, running_count=None):
    repeats = Repeats(by_name("openai.chat").varying)
    repeats.learn(json.dumps(document).encode(), running_count)
    return repeats


def block(document):
    return json.dumps(document).encode()


@pytest.mark.parametrize("text", ["a", " ", "\n", '"', "\\", "日本", 'x","finish_reason":"stop'])
def test_only_the_text_may_differ(text):
    """Any text, written with whatever escapes it takes; but never none."""
    repeats = learned(chat({"content": "hello"}))

    assert repeats.matches(block(chat({"content": text})))
    assert not repeats.matches(block(chat({"content": ""})))
    assert not repeats.matches(block(chat({"content": text}, finish_reason="stop")))
    assert not repeats.matches(block(chat({"reasoning": text})))
    assert not repeats.matches(block(chat({"content": text})) + b" ")


def test_the_running_count_is_read():
    """The count stands where the learned one stood."""
    repeats = learned(chat({"content": "a"}, usage=running(1)), running_count=1)

    assert repeats.matches(block(chat({"content": "b"}, usage=running(12))))
    assert repeats.running_count == 12


def test_a_count_that_was_understood_otherwise_is_not_learned():
    """Where the decoder found no running count, or another, the bytes are no guide."""
    for running_count in (None, 2):
        repeats = learned(chat({"content": "a"}, usage=running(1)), running_count=running_count)

        assert not repeats.matches(block(chat({"content": "a"}, usage=running(1))))


def test_a_stream_that_never_repeats_is_not_learned_for_ever():
    """Interleaved choices: comparing costs nothing any more."""
    repeats = Repeats(by_name("openai.chat").varying)
    for index in range(20):
        document = chat({"content": "a"}, index=index)
        assert not repeats.matches(block(document))
        repeats.learn(block(document), None)

    assert not repeats.matches(block(chat({"content": "a"}, index=19)))


@pytest.mark.parametrize("raw", [b'"\x01"', b'"\n"', b'"\\q"', b'"\\u12"', b'"a'])
def test_what_is_no_json_string_is_no_match(raw):
    """A parser would refuse it, so its event says nothing."""
    whole = block(chat({"content": "hello"}))
    repeats = learned(chat({"content": "hello"}))

    assert not repeats.matches(whole.replace(b'"hello"', raw))


def test_a_run_of_nothing_is_no_fruit_of_what_was_learned():
    repeats = Repeats(Varying(text_keys=("text",)))
    for number in range(100):
        repeats.learn(b'{"n":%d,"text":"a"}' % number, None)
        assert repeats.run([b'{"other":1}\n'], b"\n") == 0
    assert not repeats.matches(b'{"n":99,"text":"b"}')  # given up long before
