"""llama.cpp's events: tokens of an event, what is cached, the server's timings."""

import pytest

from phasemeter.core.timeline import Usage
from tests.dialects.decoding import decode_all


def decode(document):
    return decode_all("llamacpp.completion", document)[0]


@pytest.mark.parametrize(
    ("more", "tokens"),
    [
        ({}, None),
        ({"tokens": []}, None),
        ({"tokens": [1, 2]}, 2),
        ({"tokens": [1, 2], "completion_probabilities": [{}]}, 1),
        ({"tokens": [1, 2], "completion_probabilities": []}, 2),
        ({"tokens": "odd", "tokens_predicted": 9}, None),
    ],
)
def test_the_tokens_of_an_event_are_its_probabilities_or_its_token_ids(more, tokens):
    assert [part.tokens for part in decode({"content": "a", **more}).parts] == [tokens]


def test_what_the_slot_holds_is_no_cache_hit():
    event = decode({"tokens_evaluated": 20, "tokens_predicted": 3, "tokens_cached": 22})

    assert event.usage == Usage(input_tokens=20, output_tokens=3)


def test_timings_are_kept_by_their_own_names_and_tell_the_cache_hit():
    event = decode({"stop": True, "timings": {"cache_n": 12, "prompt_ms": 51.5, "odd": "x"}})

    assert event.server == {"cache_n": 12, "prompt_ms": 51.5}
    assert event.usage == Usage(cached_input_tokens=12)


def test_the_reason_counts_only_where_the_answer_stops():
    going = decode({"content": "a", "stop": False, "stop_type": "none"})
    stopped = decode({"content": "", "stop": True, "stop_type": "limit"})

    assert (going.terminal, going.finish_reason) == (False, None)
    assert (stopped.terminal, stopped.finish_reason) == (True, "limit")
