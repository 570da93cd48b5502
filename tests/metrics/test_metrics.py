"""Each metric on toy timelines worked by hand; what is undefined yields nothing."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter import metrics
from phasemeter.core.timeline import Leg, Outcome, Timeline, Usage
from phasemeter.core.token_events import TokenEvent
from phasemeter.metrics.stall import stalls_ns
from phasemeter.metrics.tpot import tokens_after_first_event


def make_timeline(*events, **fields):
    settled = {"request_id": "r", "dialect": "openai.chat", "operation": "chat", "model": None}
    settled |= {"stamp_source": "recv", "started_ns": 100, "ended_ns": 999, "outcome": Outcome.OK}
    return Timeline(**(settled | fields), events=events)


def content(t_ns, *, tokens=None, read=None):
    return TokenEvent(t_ns, "content", tokens, t_ns if read is None else read)


# Planned for 90, started at 100; connected 110, sent 115, headers 140, role prelude 145.
# Tokens: reasoning at 150, content at 170 (2 tokens), 170 (same read), 200 (4 tokens).
TOY = make_timeline(
    TokenEvent(150, "reasoning", 1, 0),
    TokenEvent(170, "content", 2, 1),
    TokenEvent(170, "content", 3, 1),
    TokenEvent(200, "content", 4, 2),
    intended_ns=90,
    connected_ns=110,
    sent_ns=115,
    headers_ns=140,
    first_event_ns=145,
    usage=Usage(output_tokens=11),
    consumer_waits_ns=(3, 4),
)

_EXPECTED = {
    "ttft": [150 - 100],
    "ttft_wire": [150 - 115],
    "ttft_response": [150 - 90],
    "ttfe": [145 - 100],
    "ttfa": [170 - 100],
    "gap": [170 - 150, 200 - 170],
    "gap_raw": [170 - 150, 200 - 170],
    "second_gap": [170 - 150],
    "itl": [20 // 2, round(30 / 4)],
    "stall": [],
    "tpot": [(200 - 150) // (11 - 1)],
    "decode": [200 - 150],
    "e2e": [200 - 100],
    "e2e_response": [200 - 90],
    "queue": [100 - 90],
    "connect": [110 - 100],
    "send": [115 - 110],
    "server_wait": [140 - 115],
    "stream_wait": [150 - 140],
    "prefill_leg": [],
    "handoff": [],
    "decode_leg": [],
    "consumer_wait": [3, 4],
}

_NOT_OF_A_WHOLE_BODY = {"ttft", "ttft_wire", "ttft_response", "ttfa", "gap", "itl", "stall", "tpot"}
_NOT_OF_A_WHOLE_BODY |= {"gap_raw", "second_gap", "decode", "stream_wait"}


@pytest.mark.parametrize("metric", metrics.BUILTIN, ids=lambda metric: metric.name)
def test_a_metric_on_the_toy_timeline_is_what_its_formula_says(metric):
    assert list(metric.samples(TOY)) == _EXPECTED[metric.name]


@pytest.mark.parametrize("metric", metrics.BUILTIN, ids=lambda metric: metric.name)
def test_a_metric_of_a_response_without_any_instant_is_undefined(metric):
    assert list(metric.samples(make_timeline())) == []


@pytest.mark.parametrize("metric", metrics.BUILTIN, ids=lambda metric: metric.name)
def test_one_body_instead_of_a_stream_has_no_token_times(metric):
    samples = list(metric.samples(replace(TOY, streamed=False)))

    expected = [] if metric.name in _NOT_OF_A_WHOLE_BODY else _EXPECTED[metric.name]
    assert samples == expected


def test_a_gap_that_the_consumer_limited_is_in_the_raw_gaps_only():
    """Events at 100, 150 (had been waiting), 170 with a token each."""
    timeline = make_timeline(
        TokenEvent(100, "content", 1, 0),
        TokenEvent(150, "content", 1, 1, consumer_limited=True),
        TokenEvent(170, "content", 1, 2),
        consumer_waits_ns=(49, 0),
    )

    assert list(metrics.GAP.samples(timeline)) == [20]
    assert list(metrics.ITL.samples(timeline)) == [20]
    assert list(metrics.GAP_RAW.samples(timeline)) == [50, 20]
    assert timeline.consumer_limited_gaps == 1


def test_nobody_was_handed_anything_so_there_are_no_raw_gaps():
    """A load driver's record: its gaps are gaps."""
    timeline = replace(TOY, consumer_waits_ns=())

    assert list(metrics.GAP_RAW.samples(timeline)) == []
    assert list(metrics.GAP.samples(timeline)) == [20, 30]
    assert timeline.consumer_limited_gaps is None


def test_names_are_unique():
    names = [metric.name for metric in metrics.BUILTIN]

    assert len(set(names)) == len(names)


def test_a_reused_connection_has_no_connect_and_sends_from_the_start():
    reused = replace(TOY, connected_ns=None)

    assert list(metrics.CONNECT.samples(reused)) == []
    assert list(metrics.SEND.samples(reused)) == [115 - 100]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 10**12), min_size=5, max_size=5), st.booleans())
def test_the_parts_of_ttft_add_up_exactly(steps, reused):
    started = steps[0]
    connected = started + steps[1]
    sent = connected + steps[2]
    headers = sent + steps[3]
    timeline = make_timeline(
        content(headers + steps[4]),
        started_ns=started,
        connected_ns=None if reused else connected,
        sent_ns=sent,
        headers_ns=headers,
    )
    parts = (metrics.CONNECT, metrics.SEND, metrics.SERVER_WAIT, metrics.STREAM_WAIT)

    assert sum(sum(part.samples(timeline)) for part in parts) == sum(metrics.TTFT.samples(timeline))


def test_the_time_of_a_gap_without_a_token_count_is_no_inter_token_latency():
    timeline = make_timeline(content(10), content(20), content(50, tokens=3))

    assert list(metrics.GAP.samples(timeline)) == [10, 30]
    assert list(metrics.ITL.samples(timeline)) == [30 // 3]


def test_a_coalesced_event_is_never_a_gap_of_zero():
    timeline = make_timeline(content(10, read=0), content(10, read=0), content(10, read=0))

    assert list(metrics.GAP.samples(timeline)) == []
    assert timeline.coalesced_events == 2


def test_an_answer_that_is_only_reasoning_has_no_first_answer():
    timeline = make_timeline(TokenEvent(150, "reasoning", None, 0))

    assert list(metrics.TTFA.samples(timeline)) == []
    assert list(metrics.TTFT.samples(timeline)) == [50]


def test_a_stall_is_a_gap_beyond_five_times_the_streams_own_median():
    """Gaps 10, 10, 10, 50, 51: the median is 10, so only 51 is longer than 50."""
    timeline = make_timeline(*(content(t_ns) for t_ns in (0, 10, 20, 30, 80, 131)))

    assert list(metrics.STALL.samples(timeline)) == [51]
    assert stalls_ns(timeline, factor=4.0) == [50, 51]
    assert stalls_ns(make_timeline(content(5))) == []


@pytest.mark.parametrize(
    ("output_tokens", "first", "events", "expected"),
    [
        (9, 3, 4, 6),  # 9 in all, 3 of them in the first event
        (None, 3, 4, None),
        (4, None, 4, 3),  # an event a token, so the first held one
        (5, None, 4, 4),  # and an end token without text
        (6, None, 4, None),
        (3, None, 4, None),
        (9, 3, 0, None),
    ],
)
def test_tokens_after_the_first_event_need_known_counts(output_tokens, first, events, expected):
    tokens = [first] + [None] * events
    timeline = make_timeline(
        *(content(10 * i, tokens=tokens[i]) for i in range(events)),
        usage=Usage(output_tokens=output_tokens),
    )

    assert tokens_after_first_event(timeline) == expected


@pytest.mark.parametrize("output_tokens", [3, 2])
def test_time_per_output_token_needs_a_token_after_the_first_event(output_tokens):
    timeline = make_timeline(
        content(10, tokens=3), content(20), usage=Usage(output_tokens=output_tokens)
    )

    assert list(metrics.TPOT.samples(timeline)) == []


def test_an_answer_that_came_in_one_read_has_no_decode_time():
    """A proxy that buffers everything: how long the tokens took to be written is unknown, not 0."""
    timeline = make_timeline(
        TokenEvent(150, "content", 1, 0),
        TokenEvent(150, "content", 1, 0),
        usage=Usage(output_tokens=2),
    )

    assert list(metrics.DECODE.samples(timeline)) == list(metrics.TPOT.samples(timeline)) == []
    assert timeline.decode_s is None
    assert list(metrics.TTFT.samples(timeline)) != []


# Started at 100, the prefill leg answered at 400, the decode leg sent at 430, tokens at 500, 590, 620.
TWO_LEGS = make_timeline(
    content(500),
    content(590),
    content(620),
    legs=(Leg("prefill", 110, 390, 400), Leg("decode", 430, 480, 620, 420)),
)


def test_the_legs_of_a_hand_off_add_up_to_ttft():
    parts = {
        metric.name: list(metric.samples(TWO_LEGS))
        for metric in (metrics.PREFILL_LEG, metrics.HANDOFF, metrics.DECODE_LEG)
    }

    assert parts == {"prefill_leg": [300], "handoff": [30], "decode_leg": [70]}
    assert sum(sum(one) for one in parts.values()) == 400
    assert list(metrics.TTFT.samples(TWO_LEGS)) == [400]


def test_legs_that_are_sent_together_have_no_hand_off_between_them():
    """Sent at 110 and 112; the prefill instance had answered at 480, the first token came at 500."""
    together = replace(TWO_LEGS, legs=(Leg("prefill", 110, 470, 480), Leg("decode", 112, 490, 620)))

    assert list(metrics.PREFILL_LEG.samples(together)) == [380]
    assert list(metrics.HANDOFF.samples(together)) == []
    assert list(metrics.DECODE_LEG.samples(together)) == [388]


def test_a_leg_that_was_given_up_has_no_time():
    given_up = replace(TWO_LEGS, legs=(Leg("prefill", 110, None, None),))

    assert list(metrics.PREFILL_LEG.samples(given_up)) == []
    assert list(metrics.DECODE_LEG.samples(given_up)) == []


def test_the_second_gap_is_the_first_ones_to_the_second_event_only():
    assert list(metrics.SECOND_GAP.samples(TWO_LEGS)) == [90]
    assert list(metrics.GAP.samples(TWO_LEGS)) == [90, 30]
    in_one_read = make_timeline(content(10, read=0), content(10, read=0), content(40, read=1))
    assert list(metrics.SECOND_GAP.samples(in_one_read)) == []
    limited = make_timeline(content(10), TokenEvent(40, "content", 1, 5, consumer_limited=True))
    assert list(metrics.SECOND_GAP.samples(limited)) == []
