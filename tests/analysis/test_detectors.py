"""Each detector sees what it is for, says by how much, and keeps quiet otherwise."""

from dataclasses import replace

import pytest
from run_factory import make_timeline

from phasemeter.analysis.detectors import (
    buffered_stream,
    connecting_within_ttft,
    detect,
    multi_token_events,
    prefix_cache_hits,
)
from phasemeter.core.timeline import Outcome, Usage


def stream(number, *, clump=1, reads=10, every_ms=100.0, **fields):
    """A stream of `reads` reads with `clump` token events each."""
    gaps, coalesced = [], []
    for index in range(1, clump * reads):
        inside = index % clump != 0
        gaps.append(0.0 if inside else every_ms)
        if inside:
            coalesced.append(index)
    return make_timeline(str(number), first_ms=50, gaps_ms=gaps, coalesced=coalesced, **fields)


def test_streams_in_clumps_are_told_with_their_size_and_silence():
    """Ten of twenty streams come 8 events at a time, 160 ms apart."""
    timelines = [stream(n, clump=8, every_ms=160) for n in range(10)]
    timelines += [stream(n, every_ms=20) for n in range(10, 20)]

    detection = buffered_stream(timelines)

    assert detection["share"] == 0.5
    assert "10 of 20 streams" in detection["text"]
    assert "8 token events in one read after 160 ms of silence" in detection["text"]


def test_an_answer_that_comes_whole_in_one_read_is_buffered_too():
    """The silence is then the one before that read."""
    detection = buffered_stream([stream(n, clump=20, reads=1) for n in range(5)])

    assert "20 token events in one read after 50 ms of silence" in detection["text"]


@pytest.mark.parametrize("clump", [1, 2, 3])
def test_a_few_events_that_share_a_segment_are_no_buffering(clump):
    assert buffered_stream([stream(n, clump=clump) for n in range(20)]) is None


def test_clumps_after_short_silences_may_be_the_clients_own():
    """A client that is kept from reading for 10 ms gets what came meanwhile in one read."""
    assert buffered_stream([stream(n, clump=8, every_ms=10) for n in range(10)]) is None


def test_events_of_several_tokens_are_told_with_their_mean():
    """Half the events carry 3 tokens, half 1: 2 on average."""
    timelines = [stream(n, tokens=3 if n % 2 else 1) for n in range(4)]

    detection = multi_token_events(timelines)

    assert detection["share"] == 0.5
    assert "(2.0 on average)" in detection["text"]


@pytest.mark.parametrize("tokens", [1, None])
def test_single_or_unknown_tokens_say_nothing(tokens):
    assert multi_token_events([stream(n, tokens=tokens) for n in range(4)]) is None


def test_cached_prompt_tokens_are_told_with_their_share():
    """100 + 300 of 1,000 + 1,000 prompt tokens; the third response does not tell."""
    usages = [Usage(1_000, 100, 5), Usage(1_000, 300, 5), Usage(9_000, None, 5)]

    detection = prefix_cache_hits([replace(stream(0), usage=usage) for usage in usages])

    assert detection["share"] == 0.2
    assert detection["text"].startswith("20% of the prompt tokens")


@pytest.mark.parametrize("cached", [0, None])
def test_without_cached_tokens_nothing_is_said(cached):
    assert prefix_cache_hits([replace(stream(0), usage=Usage(1_000, cached, 5))]) is None


def test_connecting_is_told_where_many_requests_do_it():
    """Half the requests connect in 30 ms."""
    reused = [replace(stream(n), sent_ns=1_000_000) for n in range(5)]
    fresh = [replace(one, connected_ns=one.started_ns + 30_000_000) for one in reused]

    detection = connecting_within_ttft(reused + fresh)

    assert detection["share"] == 0.5
    assert "5 of 10 requests opened a connection, 30.0 ms" in detection["text"]
    assert connecting_within_ttft(reused * 5 + fresh) is None


def test_only_ok_responses_are_looked_at_and_a_plain_run_shows_nothing():
    clumped = stream(0, clump=20, reads=2, outcome=Outcome.TRUNCATED)

    assert detect([clumped, *(stream(n, tokens=1) for n in range(1, 10))]) == []
    assert detect([]) == []
