"""Requests of one exchange and of two: who is asked, when, and how it ends; real sockets."""

import json
import socket
from dataclasses import replace

import pytest

from phasemeter import metrics
from phasemeter.core.timeline import Outcome
from phasemeter.load.plan import TimedFlow, UserFlow
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events
from tests.load.conftest import ONE, at_once

MS = 1_000_000
ANSWER = ScriptedReply.of_events(chat_events(first_ms=30, gap_ms=10))


@pytest.fixture
def dead_url():
    """A URL at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


def json_reply(document: object, status: int = 200) -> ScriptedReply:
    body = json.dumps(document).encode()
    headers = (("content-type", "application/json"),)
    read = ScriptedRead(20, (body,))
    return ScriptedReply([read], status=status, headers=headers, framing="length")


def separated(prefill_url: str, decode_url: str) -> Target:
    (prefill, _), (decode, _) = parse_endpoint(prefill_url), parse_endpoint(decode_url)
    return Target("separated", (prefill,), RequestStyle("chat", "m"), (decode,))


def test_a_separated_request_goes_through_both_legs_and_is_timed_as_one(drive):
    params = {"do_remote_prefill": True, "remote_port": 7}
    answer = json_reply({"choices": [], "kv_transfer_params": params})
    with ScriptedServer(answer) as prefill, ScriptedServer(ANSWER) as decode:
        (timeline,) = drive("", target=separated(prefill.url, decode.url))
        asked, streamed = (json.loads(s.served[0].body) for s in (prefill, decode))
        decode_received_ns = decode.served[0].received_ns

    assert (asked["stream"], asked["max_tokens"]) == (False, 1)
    assert streamed["kv_transfer_params"] == params
    assert (streamed["stream"], streamed["max_tokens"]) == (True, ONE.output_tokens)
    assert asked["messages"] == streamed["messages"]
    assert timeline.outcome is Outcome.OK
    assert [leg.role for leg in timeline.legs] == ["prefill", "decode"]
    assert timeline.sent_ns == timeline.legs[0].sent_ns < timeline.legs[0].ended_ns
    assert timeline.legs[0].ended_ns <= decode_received_ns + 50 * MS
    assert timeline.headers_ns == timeline.legs[1].headers_ns
    # Both connections were new; the parts of ttft add up.
    assert timeline.legs[0].connected_ns == timeline.connected_ns
    assert timeline.legs[0].ended_ns <= timeline.legs[1].connected_ns <= timeline.legs[1].sent_ns
    parts = [
        sum(metric.samples(timeline))
        for metric in (metrics.PREFILL_LEG, metrics.HANDOFF, metrics.DECODE_LEG)
    ]
    assert min(parts) > 0
    assert sum(parts) == sum(metrics.TTFT.samples(timeline))
    assert parts[0] > 20 * MS  # the prefill instance took that long


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        (json_reply({"choices": []}), "no_handoff"),
        (json_reply({"error": {"type": "overloaded"}}, status=503), "overloaded"),
    ],
)
def test_a_prefill_leg_that_hands_nothing_over_fails_the_request(drive, answer, error_type):
    with ScriptedServer(answer) as prefill, ScriptedServer(ANSWER) as decode:
        (timeline,) = drive("", target=separated(prefill.url, decode.url))
        assert decode.served == []

    assert (timeline.outcome, timeline.error_type) == (Outcome.ERROR, error_type)


def together(prefill_url: str, decode_url: str) -> Target:
    return replace(separated(prefill_url, decode_url), handoff="sglang", bootstrap_ports=(8_999,))


def test_sglangs_legs_are_sent_together_and_the_stream_is_the_decode_instances(drive):
    """The prefill instance answers late, so a decode leg that waited for it would come late."""
    prefill_answer = ScriptedReply.of_events(chat_events(first_ms=400, kinds=("content",)))
    decode_answer = ScriptedReply.of_events(chat_events(first_ms=600, gap_ms=10))
    with ScriptedServer(prefill_answer) as prefill, ScriptedServer(decode_answer) as decode:
        (timeline,) = drive("", target=together(prefill.url, decode.url))
        asked, streamed = (json.loads(s.served[0].body) for s in (prefill, decode))
        received_ns = [s.served[0].received_ns for s in (prefill, decode)]

    assert asked == streamed
    assert (asked["bootstrap_host"], asked["bootstrap_port"]) == ("127.0.0.1", 8_999)
    assert 0 <= asked["bootstrap_room"] < 2**63
    assert (asked["stream"], asked["max_tokens"]) == (True, ONE.output_tokens)
    assert abs(received_ns[0] - received_ns[1]) < 300 * MS
    assert (timeline.outcome, len(timeline.events)) == (Outcome.OK, 8)
    legs = {leg.role: leg for leg in timeline.legs}
    assert list(legs) == ["prefill", "decode"]
    assert legs["decode"].sent_ns < legs["prefill"].ended_ns < timeline.first_token_ns
    assert timeline.sent_ns == legs["prefill"].sent_ns
    assert timeline.headers_ns == legs["decode"].headers_ns
    assert list(metrics.HANDOFF.samples(timeline)) == []
    assert sum(metrics.DECODE_LEG.samples(timeline)) > 500 * MS


def test_each_of_sglangs_requests_meets_in_a_room_of_its_own(drive):
    with ScriptedServer(ANSWER) as prefill, ScriptedServer(ANSWER) as decode:
        timelines = drive("", at_once(3), target=together(prefill.url, decode.url))
        rooms = [
            [json.loads(r.body)["bootstrap_room"] for r in s.served] for s in (prefill, decode)
        ]

    assert [t.outcome for t in timelines] == [Outcome.OK] * 3
    assert sorted(rooms[0]) == sorted(rooms[1])
    assert len(set(rooms[0])) == 3


def test_a_prefill_instance_that_refuses_ends_the_request_although_decode_waits(drive):
    """A decode instance waits for a KV cache that never comes; its connection is given up."""
    refusal = json_reply({"error": {"type": "overloaded"}}, status=503)
    never = ScriptedReply.of_events(chat_events(first_ms=60_000))
    with ScriptedServer(refusal) as prefill, ScriptedServer(never) as decode:
        (timeline,) = drive("", target=together(prefill.url, decode.url), drain_s=20.0)

    assert (timeline.outcome, timeline.error_type) == (Outcome.ERROR, "overloaded")
    assert timeline.http_status == 503
    assert timeline.ended_ns - timeline.started_ns < 10_000 * MS
    assert [leg.role for leg in timeline.legs] == ["prefill", "decode"]


def test_a_prefill_instance_that_fails_during_the_stream_truncates_it(drive):
    broken = ScriptedReply(
        [ScriptedRead(300, (b"oops",))], status=500, headers=(("content-type", "text/plain"),)
    )
    tokens = [ScriptedRead(20, (b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n',))]
    tokens.append(ScriptedRead(60_000, (b"data: [DONE]\n\n",)))
    with ScriptedServer(broken) as prefill, ScriptedServer(ScriptedReply(tokens)) as decode:
        (timeline,) = drive("", target=together(prefill.url, decode.url), drain_s=20.0)

    assert (timeline.outcome, len(timeline.events)) == (Outcome.TRUNCATED, 1)


def test_a_prefill_leg_that_is_still_open_at_the_streams_end_is_given_up(drive):
    slow = ScriptedReply.of_events(chat_events(first_ms=60_000))
    with ScriptedServer(slow) as prefill, ScriptedServer(ANSWER) as decode:
        (timeline,) = drive("", target=together(prefill.url, decode.url), drain_s=20.0)

    assert timeline.outcome is Outcome.OK
    prefill_leg, decode_leg = timeline.legs
    assert (prefill_leg.role, prefill_leg.ended_ns) == ("prefill", None)
    assert decode_leg.ended_ns == timeline.ended_ns
    assert list(metrics.PREFILL_LEG.samples(timeline)) == []


def test_two_open_legs_are_one_request_when_time_is_up(drive):
    never = ScriptedReply.of_events(chat_events(first_ms=60_000))
    with ScriptedServer(never) as prefill, ScriptedServer(never) as decode:
        (timeline,) = drive(
            "", target=together(prefill.url, decode.url), drain_s=20.0, timeout_s=0.5
        )

    assert (timeline.outcome, timeline.error_type) == (Outcome.ERROR, "timeout")
    assert len(timeline.legs) == 2


def test_nothing_listens_where_the_prompt_should_go(drive, dead_url):
    with ScriptedServer(ANSWER) as decode:
        (timeline,) = drive("", target=together(dead_url, decode.url))

    assert (timeline.outcome, timeline.error_type) == (Outcome.ERROR, "connection_refused")


def test_classes_go_to_instances_of_their_own_in_turn(drive):
    other = replace(ONE, name="other")
    flow = TimedFlow("timed", tuple((0.02 * k, (ONE, other)[k % 2]) for k in range(8)))
    with (
        ScriptedServer(ANSWER) as first,
        ScriptedServer(ANSWER) as second,
        ScriptedServer(ANSWER) as third,
    ):
        servers = (first, second, third)
        target = Target(
            "class-routed",
            tuple(parse_endpoint(server.url)[0] for server in servers),
            RequestStyle("chat", "m"),
            routes={"one": (0, 1), "other": (2,)},
        )
        timelines = drive("", flow, target=target)
        counts = [len(server.served) for server in servers]

    assert counts == [2, 2, 4]
    instances = {(t.tags["class"], t.tags["instance"]) for t in timelines}
    assert instances == {("one", "0"), ("one", "1"), ("other", "2")}


def test_users_are_spread_over_replicas_at_every_moment(drive):
    """Each user's next request is written out while the current one runs; turns are taken as they are sent.

    Taken as they are written out, all users' first requests would go to one replica and all their
    second ones to the other.
    """
    users = UserFlow("users", (ONE,), 6, 0.0, 0.4)
    beside = TimedFlow("beside", tuple((0.05 * k, replace(ONE, name="beside")) for k in range(6)))
    with ScriptedServer(ANSWER) as first, ScriptedServer(ANSWER) as second:
        endpoints = tuple(parse_endpoint(server.url)[0] for server in (first, second))
        target = Target("replicated", endpoints, RequestStyle("chat", "m"))
        timelines = drive("", users, beside, target=target)

    in_order = sorted(timelines, key=lambda timeline: timeline.started_ns)
    instances = [timeline.tags["instance"] for timeline in in_order]
    assert len(instances) > 12
    assert instances == [str(number % 2) for number in range(len(instances))]
