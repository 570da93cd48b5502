"""TGI events: one token each, and a last one that repeats the whole text."""

from phasemeter.core.timeline import Usage
from tests.dialects.decoding import decode_all, kinds_of


def decode(*documents):
    return decode_all("tgi.generate", *documents)


def token(text, **more):
    return {"token": {"id": 1, "text": text}, "generated_text": None, **more}


def test_one_event_is_one_token_unless_its_text_is_empty():
    first, empty, last = decode(token("a"), token(""), token("</s>", generated_text="a"))

    assert [[part.tokens for part in event.parts] for event in (first, empty, last)] == [
        [1],
        [],
        [1],
    ]
    assert (first.terminal, last.terminal) == (False, True)


def test_a_text_after_tokens_repeats_them_and_alone_is_the_answer():
    assert kinds_of(decode(token("a"), {"generated_text": "a"})[1]) == []
    assert kinds_of(decode({"generated_text": "a"})[0]) == ["content"]
    assert decode({"generated_text": "a"})[0].parts[0].tokens is None


def test_the_details_tell_the_finish_and_the_counts():
    details = {"finish_reason": "length", "generated_tokens": 3, "input_length": 11}
    event = decode(token("a", details=details))[0]

    assert event.finish_reason == "length"
    assert event.usage == Usage(input_tokens=11, output_tokens=3)
