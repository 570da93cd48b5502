"""The driver against real sockets; times are compared with what the server says it did."""

import gc
import heapq
import itertools
import json
import selectors
import socket
import threading

import pytest

from phasemeter.analysis.detectors import detect
from phasemeter.core.clock import now_ns
from phasemeter.core.meter import StreamMeter
from phasemeter.core.timeline import Outcome
from phasemeter.load.connecting import Connecting
from phasemeter.load.connection import Connection, resolve
from phasemeter.load.driver import Driver
from phasemeter.load.exchange import Exchange
from phasemeter.load.flight import Flight
from phasemeter.load.http1 import ResponseReader
from phasemeter.load.plan import ArrivalFlow, UserFlow
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events
from phasemeter.transports import arrivals
from phasemeter.transports.arrivals import HAS_KERNEL_STAMPS
from tests.load.conftest import ONE, at_once

MS = 1_000_000
ANSWER = ScriptedReply.of_events(chat_events(first_ms=30, gap_ms=10))


def test_a_response_is_timed_as_the_server_sent_it(drive):
    with ScriptedServer(ANSWER) as server:
        (timeline,) = drive(server.url)
        served = server.served[0]

    # reads: role, 8 tokens, then finish, usage and end mark in writes of their own
    sent_ns = served.sent_ns[1:9]
    errors_ns = [
        event.t_ns - truth_ns for event, truth_ns in zip(timeline.events, sent_ns, strict=True)
    ]
    assert timeline.outcome is Outcome.OK
    assert timeline.usage.output_tokens == 8
    # The server's stamp is taken after its send returned, which may be long after on a busy
    # machine; before it the kernel had the bytes.
    assert all(-200 * MS < error_ns < 50 * MS for error_ns in errors_ns)
    assert timeline.started_ns <= timeline.connected_ns <= timeline.sent_ns <= timeline.headers_ns


@pytest.mark.skipif(not hasattr(socket, "CMSG_SPACE"), reason="no ancillary data here")
def test_kernel_stamps_do_not_depend_on_when_the_driver_reads(drive):
    """A driver that is held up for 60 ms at a stretch still sees 10 ms gaps."""
    held_up: list[int] = []

    def hold_up() -> bool:
        begun_ns = now_ns()
        while now_ns() - begun_ns < 25 * MS:
            pass
        held_up.append(begun_ns)
        return False

    with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=30, gap_ms=60))) as server:
        (timeline,) = drive(server.url, should_stop=hold_up)
        sent_ns = server.served[0].sent_ns[1:9]

    if timeline.stamp_source != "kernel":
        pytest.skip("this system has no kernel receive stamps")
    true_ns = [b - a for a, b in itertools.pairwise(sent_ns)]
    late_ns = [abs(gap - true) for (gap, _), true in zip(timeline.gaps(), true_ns, strict=True)]
    assert len(held_up) > 3
    # The middle one: a busy machine may delay the server's own stamp of some.
    assert sorted(late_ns)[len(late_ns) // 2] < 5 * MS


def test_a_driver_told_to_read_the_clock_says_so(drive):
    with ScriptedServer(ANSWER) as server:
        endpoint, _ = parse_endpoint(server.url)
        target = Target(
            "single", (endpoint,), RequestStyle("chat", "m"), connecting=Connecting(stamps="recv")
        )
        (timeline,) = drive("", target=target)
        sent_ns = server.served[0].sent_ns[1:9]

    assert timeline.stamp_source == "recv"
    # The stamps that are not used still say how late the times are.
    assert (drive.driver.health.read_lag.percentiles_ns() is not None) == HAS_KERNEL_STAMPS
    assert all(
        event.t_ns - truth_ns > -200 * MS
        for event, truth_ns in zip(timeline.events, sent_ns, strict=True)
    )


def test_connections_are_kept_between_requests_and_not_shared_at_a_time(drive):
    users = UserFlow("u", (ONE,), users=3, start_s=0, stop_s=60, max_requests=12)
    with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=5, gap_ms=2))) as server:
        timelines = drive(server.url, users, duration_s=60)
        connections = {request.connection for request in server.served}

    assert [t.outcome for t in timelines] == [Outcome.OK] * 12
    assert len(connections) == 3
    assert sum(t.connected_ns is not None for t in timelines) == 3
    assert len(drive.issued) == drive.driver.counts.issued == 12


def test_open_loop_requests_leave_on_time_whatever_the_server_does(drive):
    """Ten arrivals 20 ms apart all leave while the first answer is still awaited."""
    arrivals = ArrivalFlow("a", (ONE,), 50.0, "constant", 0.0, 0.2)
    with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=600, gap_ms=1))) as server:
        timelines = drive(server.url, arrivals, duration_s=0.2)

    assert len(timelines) == 10
    first_token_ns = min(t.first_token_ns for t in timelines)
    assert all(t.started_ns < first_token_ns for t in timelines)
    assert all(t.started_ns >= t.intended_ns for t in timelines)
    intended = sorted(t.intended_ns for t in timelines)
    assert [b - a for a, b in itertools.pairwise(intended)] == [20 * MS] * 9


def test_requests_carry_identifier_headers_and_a_body_of_the_plan(drive):
    with ScriptedServer(ANSWER) as server:
        drive(server.url)
        request = server.served[0]

    head = request.head.lower()
    assert b"x-request-id: salt-timed-0" in head
    assert b"x-test: yes" in head
    assert json.loads(request.body)["max_tokens"] == ONE.output_tokens


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_every_framing_of_a_body_is_read(drive, framing):
    reply = ScriptedReply.of_events(chat_events(first_ms=5, gap_ms=1), framing=framing)
    with ScriptedServer(reply) as server:
        (timeline,) = drive(server.url)

    assert (timeline.outcome, len(timeline.events)) == (Outcome.OK, 8)


@pytest.mark.parametrize(
    ("reply", "outcome", "error_type", "tokens"),
    [
        (ScriptedReply([], status=429), Outcome.ERROR, "rate_limit", 0),
        (ScriptedReply([], status=500), Outcome.ERROR, "server_error", 0),
        (ScriptedReply([], status=307), Outcome.ERROR, "redirect", 0),
        (ScriptedReply([], framing="close"), Outcome.TRUNCATED, None, 0),
        (
            ScriptedReply.of_events(chat_events(finish_reason=None)[:4], end="reset"),
            Outcome.TRUNCATED,
            "connection_reset",
            3,
        ),
        (
            ScriptedReply.of_events([(1, '{"error": {"message": "x", "type": "server_error"}}')]),
            Outcome.ERROR,
            "server_error",
            0,
        ),
        (ScriptedReply.of_events([(1, "[DONE]")]), Outcome.EMPTY, None, 0),
    ],
)
def test_what_goes_wrong_is_told_apart(drive, reply, outcome, error_type, tokens):
    with ScriptedServer(reply) as server:
        (timeline,) = drive(server.url)

    assert timeline.outcome is outcome
    assert timeline.error_type == error_type
    assert len(timeline.events) == tokens


def test_a_refused_connection_is_an_error_of_its_own(drive):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    (timeline,) = drive(f"http://127.0.0.1:{port}")

    assert (timeline.outcome, timeline.error_type) == (Outcome.ERROR, "connection_refused")
    assert timeline.http_status is None


def test_a_response_that_does_not_end_is_timed_out_with_what_it_brought(drive):
    reply = ScriptedReply.of_events(chat_events(first_ms=5, gap_ms=1)[:5], end="hang")
    with ScriptedServer(reply) as server:
        (timeline,) = drive(server.url, timeout_s=0.4, duration_s=0.1, drain_s=20)

    assert (timeline.outcome, timeline.error_type) == (Outcome.ERROR, "timeout")
    assert len(timeline.events) == 4


def test_answers_still_missing_at_the_end_of_the_drain_are_cancelled_and_recorded(drive):
    reply = ScriptedReply.of_events(chat_events(first_ms=5, gap_ms=1)[:5], end="hang")
    with ScriptedServer(reply) as server:
        timelines = drive(server.url, at_once(3), duration_s=0.1, drain_s=0.4)

    assert drive.finished is True
    assert [t.outcome for t in timelines] == [Outcome.CANCELLED] * 3
    assert drive.driver.counts.issued == len(timelines) == 3


def test_a_stopped_driver_records_what_was_in_flight(drive):
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    reply = ScriptedReply.of_events(chat_events(first_ms=5, gap_ms=1)[:5], end="hang")
    with ScriptedServer(reply) as server:
        timelines = drive(server.url, duration_s=60, should_stop=stop.is_set)

    assert drive.finished is False
    assert [t.outcome for t in timelines] == [Outcome.CANCELLED]


def test_a_kept_connection_that_the_peer_has_closed_costs_no_request(drive):
    """The server closes after each answer without saying so; each request still succeeds."""
    listener = socket.create_server(("127.0.0.1", 0))
    body = b"".join(b"data: " + data.encode() + b"\n\n" for _, data in chat_events())
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def serve() -> None:
        for _ in range(3):
            connection, _ = listener.accept()
            with connection:
                while b'"messages"' not in connection.recv(65_536):
                    pass
                connection.sendall(reply)

    thread = threading.Thread(target=serve)
    thread.start()
    users = UserFlow("u", (ONE,), users=1, start_s=0, stop_s=60, max_requests=3)
    with listener:
        timelines = drive(f"http://127.0.0.1:{listener.getsockname()[1]}", users, duration_s=60)
        thread.join(10)

    assert [t.outcome for t in timelines] == [Outcome.OK] * 3
    # Each went out on a connection of its own in the end, and is timed on that one.
    assert all(t.connected_ns is not None for t in timelines)
    assert all(t.connected_ns <= t.sent_ns <= t.headers_ns for t in timelines)


def test_a_connection_closed_while_idle_is_not_dropped_from_under_its_next_user(drive):
    """In one turn of the loop the close of an idle connection and its reuse may meet."""
    with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=5, gap_ms=1))) as server:
        drive(server.url, UserFlow("u", (ONE,), users=1, start_s=0, stop_s=60, max_requests=1))
        driver = drive.driver
        connection = Connection(
            resolve("127.0.0.1", int(server.url.rpartition(":")[2]), tls=False), None
        )
        driver._selector = selectors.DefaultSelector()
        stale = driver._selector.register(connection, selectors.EVENT_READ, None)
        in_use = driver._selector.modify(connection, selectors.EVENT_READ, "an exchange")
        served = []
        driver._serve = lambda exchange, events: served.append(exchange)

        driver._work_off([(stale, selectors.EVENT_READ)])
        assert connection.fileno() >= 0
        driver._work_off([(in_use, selectors.EVENT_READ)])

        assert served == ["an exchange"]
        driver._close(connection)
        driver._close(connection)  # what is closed already is no fault
        driver._selector.close()


def test_a_proxy_that_lets_events_go_in_clumps_is_noticed(drive):
    """The same 24 tokens, one by one and six at a time after 60 ms of silence."""
    events = [f"data: {data}\n\n".encode() for _, data in chat_events(kinds=("content",) * 24)]
    one_by_one = [ScriptedRead(20 + 10 * k, (event,)) for k, event in enumerate(events)]
    clumps = [
        ScriptedRead(20 + 60 * k, tuple(events[start : start + 6]))
        for k, start in enumerate(range(0, len(events), 6))
    ]
    found = []
    for reads in (one_by_one, clumps):
        drive.timelines.clear()
        with ScriptedServer(ScriptedReply(reads)) as server:
            found.append([one["kind"] for one in detect(drive(server.url, at_once(3)))])

    assert "buffered_stream" not in found[0]
    assert "buffered_stream" in found[1]


@pytest.mark.parametrize("status", [None, 503])
def test_users_do_not_hammer_a_server_that_refuses_at_once(drive, status):
    """Two users over 0.5 s, a tenth of a second apart: some ten requests, not thousands."""
    users = UserFlow("u", (ONE,), users=2, start_s=0, stop_s=0.5)
    with ScriptedServer(ScriptedReply([], status=status or 200)) as server:
        url = server.url
        if status is not None:
            drive(url, users)
    if status is None:
        drive(url, users)  # nobody listens there any more

    assert {t.outcome for t in drive.timelines} == {Outcome.ERROR}
    assert 2 <= len(drive.timelines) <= 14


def test_requests_leave_no_cycles_behind(drive):
    """What they hold is free at once, not when the collector comes round."""
    users = UserFlow("u", (ONE,), users=2, start_s=0, stop_s=60, max_requests=6)
    kinds = (Flight, Exchange, ResponseReader, StreamMeter)

    def alive():
        return [one for one in gc.get_objects() if isinstance(one, kinds)]

    gc.collect()
    others = set(map(id, alive()))  # kept by tests that ran before in this process
    gc.disable()
    try:
        with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=5, gap_ms=1))) as server:
            drive(server.url, users, duration_s=60)
        left = [type(one).__name__ for one in alive() if id(one) not in others]
    finally:
        gc.enable()

    assert len(drive.timelines) == 6
    assert left == []


def test_a_start_does_not_wait_for_the_reads_of_its_turn(drive, monkeypatch):
    """Three connections are readable at once and each takes 30 ms; what falls due meanwhile leaves."""
    order: list[str] = []

    def slow(driver, exchange, events):
        begun_ns = now_ns()
        while now_ns() - begun_ns < 30 * MS:
            pass
        order.append(f"read {exchange}")

    with ScriptedServer(ANSWER) as server:
        drive(server.url)
    driver = drive.driver
    monkeypatch.setattr(Driver, "_serve", slow)
    monkeypatch.setattr(Driver, "_start", lambda driver, due: order.append(f"start {due}"))
    keys = [selectors.SelectorKey(None, number, 1, str(number)) for number in range(3)]
    heapq.heappush(driver._due, (now_ns() + 10 * MS, 1, "one"))
    driver._work_off([(key, 1) for key in keys])

    assert order == ["read 0", "start one", "read 1", "read 2"]


def test_a_response_is_decoded_after_its_end(drive, monkeypatch):
    """Nothing is parsed while tokens still come; what was read is stamped and kept."""
    decoded_ns: list[int] = []
    take = StreamMeter._understand

    def noted(meter, *block):
        decoded_ns.append(now_ns())
        return take(meter, *block)

    monkeypatch.setattr(StreamMeter, "_understand", noted)
    with ScriptedServer(ANSWER) as server:
        (timeline,) = drive(server.url)

    assert (timeline.outcome, len(timeline.events)) == (Outcome.OK, 8)
    assert min(decoded_ns) >= timeline.ended_ns


def test_where_the_system_has_no_kernel_stamps_the_clock_is_read(drive, monkeypatch):
    """As on macOS."""
    monkeypatch.setattr(arrivals, "HAS_KERNEL_STAMPS", False)
    with ScriptedServer(ANSWER) as server:
        (timeline,) = drive(server.url)

    assert (timeline.outcome, timeline.stamp_source) == (Outcome.OK, "recv")
    assert drive.driver.health.read_lag.percentiles_ns() is None
