"""A streamed JSON array: each element is complete at its closing brace, wherever the bytes are cut."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.core.framing import Frame
from phasemeter.core.json_array import JsonArrayFramer

_TEXT = st.text(st.sampled_from('ab{}[]",:\\\n é€'), max_size=6)
_VALUES = st.recursive(
    _TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_ELEMENTS = st.lists(st.dictionaries(_TEXT, _VALUES, max_size=3), max_size=5)


def feed_all(framer, pieces):
    return [frame for piece in pieces for frame in framer.feed(piece)]


def one_by_one(body):
    return [body[i : i + 1] for i in range(len(body))]


@settings(deadline=None, max_examples=200)
@given(_ELEMENTS, st.booleans(), st.sampled_from([None, 1]), st.data())
def test_the_frames_are_the_elements_wherever_the_bytes_are_cut(elements, ascii_only, indent, data):
    body = json.dumps(elements, ensure_ascii=ascii_only, indent=indent).encode()
    place = data.draw(st.integers(0, len(body)))

    for pieces in ([body], [body[:place], b"", body[place:]], one_by_one(body)):
        frames = feed_all(JsonArrayFramer(), pieces)

        assert [json.loads(frame.data) for frame in frames] == elements


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from([bytes([one]) for one in b'[]{}",\\a \xff']), max_size=40))
def test_no_bytes_make_it_raise_and_cuts_change_nothing(pieces):
    assert feed_all(JsonArrayFramer(), pieces) == JsonArrayFramer().feed(b"".join(pieces))


def test_an_element_is_complete_at_its_closing_brace_and_not_at_the_comma():
    framer = JsonArrayFramer()

    assert framer.feed(b'[{"a":"}"') == []
    assert framer.feed(b"}") == [Frame('{"a":"}"}')]
    assert framer.feed(b',\r\n{"b":[{}]}, {"c"') == [Frame('{"b":[{}]}')]
    assert framer.finish() == []


@pytest.mark.parametrize("between", [b"", b",1,null,", b',"{",', b"]\n", b"],[", b"}}]]"])
def test_what_lies_between_the_objects_is_skipped(between):
    frames = JsonArrayFramer().feed(b'[{"a":1}' + between + b'{"b":2}]')

    assert [frame.data for frame in frames] == ['{"a":1}', '{"b":2}']


def test_two_megabytes_byte_by_byte_take_linear_time():
    body = b'[{"a":"' + b"x" * 2_000_000 + b'"}]'
    started_ns = now_ns()

    assert len(feed_all(JsonArrayFramer(), one_by_one(body))) == 1
    assert now_ns() - started_ns < 30 * NS_PER_S
