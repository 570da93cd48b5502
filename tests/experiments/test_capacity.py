"""Work per block, against streams and requests whose rates are known by construction."""

from dataclasses import replace

import numpy as np
import pytest

from phasemeter.analysis.bootstrapped import bootstrapped_rate
from phasemeter.analysis.records import Mark
from phasemeter.core.timeline import Usage
from phasemeter.experiments.blocks import Stretch
from phasemeter.experiments.capacity import (
    decode_blocks,
    most_together,
    prompt_token_blocks,
    request_blocks,
)
from tests.analysis.run_factory import MS, make_timeline

STEP_MS = 10.0


def stretch(timelines, start_ms=0.0, end_ms=10_000.0):
    mark = Mark("isolated", "decode", 1, "measure", round(start_ms * MS), round(end_ms * MS))
    return Stretch(mark, timelines)


def rate(blocks):
    return bootstrapped_rate(blocks, seed=1).value


@pytest.mark.parametrize("first_comes", ["first", "last"])
def test_decode_is_counted_only_where_all_streams_decode(first_comes):
    """Four streams at 10 ms a step; each prompt stops them all for 100 ms. The rate is that of the
    steps, wherever in a step the new stream's token is sent: 0.5 ms before or after the others'."""
    clock_ms = 0.0
    streams = [[] for _ in range(4)]
    left = [5, 11, 17, 23]  # tokens until each stream ends, at first
    times = [[] for _ in range(4)]
    for user in range(4):
        times[user] = [clock_ms + user * 0.1]
    while clock_ms < 8_000:
        clock_ms += STEP_MS
        new = [user for user in range(4) if left[user] == 0]
        if new:
            clock_ms += 100.0
        for user in range(4):
            if user in new:
                streams[user].append(times[user])
                shift = -0.5 if first_comes == "first" else 0.5
                times[user], left[user] = [clock_ms + shift], 24
            else:
                times[user].append(clock_ms + user * 0.1)
                left[user] -= 1
    timelines = [
        make_timeline(
            f"u{user}-{n}", start_ms=t[0] - 100, first_ms=t[0], gaps_ms=np.diff(t).tolist()
        )
        for user in range(4)
        for n, t in enumerate(streams[user])
    ]
    blocks = decode_blocks([stretch(timelines, 500, 7_500)], 4)

    assert most_together([stretch(timelines)]) == 4
    assert len(blocks) > 20
    # Only gaps after a new stream's first token differ, by the half millisecond it was off.
    assert rate(blocks) == pytest.approx(4 / STEP_MS * 1000, rel=0.01)


def test_fewer_streams_than_asked_for_are_no_measurement():
    timelines = [make_timeline(f"{n}", first_ms=0, gaps_ms=[10] * 50) for n in range(3)]

    assert decode_blocks([stretch(timelines)], 4) == []
    assert most_together([stretch(timelines)]) == 3


def test_tokens_of_one_read_count_with_the_gap_before_it():
    """Two tokens every 20 ms are 100 per second; a stream that does not tell is no measurement."""
    fields = {"first_ms": 0.0, "gaps_ms": [20.0, 0.0] * 100}
    coalesced = range(2, 201, 2)
    told = make_timeline("a", coalesced=coalesced, **fields)
    untold = make_timeline("a", coalesced=coalesced, tokens=None, **fields)

    assert rate(decode_blocks([stretch([told])], 1)) == pytest.approx(100)
    assert decode_blocks([stretch([untold])], 1) == []


def test_requests_are_spread_over_their_time_and_waves_do_not_matter():
    """Ten users whose requests of 900 ms all end together: 11.1 per second in every block, whether
    the window holds three ends or four."""
    timelines = [
        make_timeline(f"{user}-{n}", start_ms=n * 900, first_ms=n * 900 + 100, gaps_ms=[800])
        for user in range(10)
        for n in range(10)
    ]
    for end_ms in (4_000, 4_400):
        blocks = request_blocks([stretch(timelines, 1_000, end_ms)])

        assert all(work / seconds == pytest.approx(10 / 0.9) for work, seconds in blocks)
        assert min(seconds for _, seconds in blocks) >= 0.9  # no shorter than a request


def test_prompt_tokens_are_the_servers_count_where_it_tells_one():
    """Two users, 500 ms a prompt: 100 tokens asked for, 103 counted."""
    asked = [
        make_timeline(
            f"{n}", start_ms=n * 500, first_ms=n * 500 + 500, tags={"prompt_tokens": "100"}
        )
        for n in range(20)
    ]
    counted = [
        make_timeline(f"{n}", start_ms=n * 500, first_ms=n * 500 + 500, tags={}) for n in range(20)
    ]
    counted = [replace(one, usage=Usage(input_tokens=103)) for one in counted]

    assert rate(prompt_token_blocks([stretch(asked, 1_000, 9_000)])) == pytest.approx(200)
    assert rate(prompt_token_blocks([stretch(counted, 1_000, 9_000)])) == pytest.approx(206)
    assert prompt_token_blocks([stretch([])]) == []
