"""The truth server serves raw sockets, and its log is what these see."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.testing.truth.conftest import connect

ROOT = Path(__file__).parents[2]


def request_bytes(path="/v1/completions", headers=(), **body):
    content = json.dumps({"model": "m", "prompt": "hello", "stream": True, **body}).encode()
    lines = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(content)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def read_until(client, mark):
    """Read to a mark; returns [(time, bytes)] of the reads."""
    reads, tail = [], b""
    while mark not in tail:
        part = client.recv(65536)
        if not part:
            break
        reads.append((time.monotonic_ns(), part))
        tail = tail[-len(mark) :] + part
    return reads


def events_of(data):
    """Return the JSON events of a chunked stream of events."""
    lines = [line for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


def ask(url, *requests, mark=b"\r\n0\r\n\r\n"):
    """Send requests one after another on one connection; returns the reads of each answer."""
    with connect(url) as client:
        answers = []
        for request in requests:
            client.sendall(request)
            answers.append(read_until(client, mark))
        return answers


def whole(reads):
    return b"".join(data for _, data in reads)


def test_the_log_says_when_each_event_was_sent(serving):
    """A read cannot return an event before it was sent, and the next is not sent before its time."""
    with serving("ttft_ms=40,gap_ms=10") as server:
        sent_ns = time.monotonic_ns()
        (reads,) = ask(server.url, request_bytes(max_tokens=5, headers=["x-request-id: r7"]))
    (truth,) = server.truth

    assert (truth.request_id, truth.outcome, truth.tokens) == ("r7", "ok", 5)
    assert sent_ns <= truth.received_ns <= truth.headers_ns <= truth.emit_ns[0]
    assert len(events_of(whole(reads))) == len(truth.emit_ns) == 5
    assert truth.planned_ns == [truth.received_ns + ms * 1_000_000 for ms in (40, 50, 60, 70, 80)]
    assert all(emit >= plan for emit, plan in zip(truth.emit_ns, truth.planned_ns, strict=True))
    arrivals_ns = [t_ns for t_ns, data in reads if b'"text"' in data]
    for emit_ns, read_ns in zip(truth.emit_ns, arrivals_ns, strict=False):
        assert emit_ns <= read_ns


def test_every_event_is_a_write_of_its_own(serving):
    """With gaps far above a scheduler's hiccup each read brings one event."""
    with serving("ttft_ms=20,gap_ms=60") as server:
        (reads,) = ask(server.url, request_bytes(max_tokens=3))

    assert [data.count(b'"text"') for _, data in reads if b'"text"' in data] == [1, 1, 1]


def test_a_clump_is_one_write_after_silence(serving):
    with serving("ttft_ms=10,gap_ms=5,clump_events=4") as server:
        (reads,) = ask(server.url, request_bytes(max_tokens=8))
    (truth,) = server.truth

    assert len(set(truth.emit_ns)) == 2
    assert truth.emit_ns[:4] == truth.emit_ns[:1] * 4
    assert len(events_of(whole(reads))) == 8


def test_a_stall_lengthens_the_gap_after_it(serving):
    with serving("ttft_ms=5,gap_ms=5,stall_ms=80,stall_every=3") as server:
        ask(server.url, request_bytes(max_tokens=6))
    (truth,) = server.truth
    planned_ms = [(t_ns - truth.received_ns) / 1e6 for t_ns in truth.planned_ns]

    assert planned_ms == [5, 10, 15, 100, 105, 110]
    assert truth.emit_ns[3] - truth.emit_ns[2] > 40_000_000


def test_a_reset_cuts_the_stream_off(serving):
    with serving("ttft_ms=5,gap_ms=30,reset_after=2") as server, connect(server.url) as client:
        client.sendall(request_bytes(max_tokens=9))
        with pytest.raises(ConnectionResetError):
            read_until(client, b"never")
    (truth,) = server.truth

    assert (truth.outcome, len(truth.emit_ns)) == ("reset", 2)


def test_slow_headers_hold_back_an_early_first_token(serving):
    with serving("ttft_ms=1,gap_ms=1,headers_ms=60") as server:
        ask(server.url, request_bytes(max_tokens=2))
    (truth,) = server.truth

    assert truth.headers_ns - truth.received_ns >= 60_000_000
    assert truth.emit_ns[0] >= truth.headers_ns


def test_an_event_can_carry_several_tokens(serving):
    """Seven tokens in threes are three events, and running usage counts 3, 6, 7."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    with serving("ttft_ms=5,gap_ms=2,tokens_per_event=3") as server:
        (reads,) = ask(server.url, request_bytes(max_tokens=7, stream_options=options))
    events = events_of(whole(reads))
    counts = [event["usage"]["completion_tokens"] for event in events]

    assert counts == [3, 6, 7, 7]
    assert events[-1]["choices"] == []
    assert (server.truth[0].tokens, len(server.truth[0].emit_ns)) == (7, 3)


def test_an_event_can_tell_its_own_time(serving):
    with serving("ttft_ms=5,gap_ms=2,stamped=1") as server:
        (reads,) = ask(server.url, request_bytes(max_tokens=3))

    assert [event["emit_ns"] for event in events_of(whole(reads))] == server.truth[0].emit_ns


def test_one_request_can_ask_for_its_own_faults(serving):
    """The header changes the pacing of this request only."""
    clumped = request_bytes(max_tokens=4, headers=["X-Truth-Pacing: clump_events=4"])
    with serving("ttft_ms=5,gap_ms=2") as server:
        ask(server.url, clumped, request_bytes(max_tokens=4))

    assert [len(set(one.emit_ns)) for one in server.truth] == [1, 4]


def test_chat_begins_with_the_role_and_ends_with_the_reason(serving):
    messages = [{"role": "user", "content": "hi"}]
    with serving("ttft_ms=5,gap_ms=2") as server:
        (reads,) = ask(
            server.url,
            request_bytes("/v1/chat/completions", messages=messages, max_completion_tokens=3),
        )
    choices = [event["choices"][0] for event in events_of(whole(reads))]

    assert [one["delta"]["content"] for one in choices] == [" amber", " birch", " cedar"]
    assert [one["delta"].get("role") for one in choices] == ["assistant", None, None]
    assert [one["finish_reason"] for one in choices] == [None, None, "length"]


def test_a_whole_answer_comes_when_its_last_token_would(serving):
    with serving("ttft_ms=10,gap_ms=10") as server:
        (reads,) = ask(
            server.url, request_bytes(max_tokens=4, stream=False, prompt=[1, 2, 3]), mark=b"}}"
        )
    document = json.loads(whole(reads).partition(b"\r\n\r\n")[2])
    (truth,) = server.truth

    assert document["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert document["choices"][0]["text"] == " amber birch cedar delta"
    assert truth.headers_ns - truth.received_ns >= 40_000_000


def test_a_connection_serves_one_request_after_another(serving):
    """Even when the second was sent before the first was answered."""
    with serving("ttft_ms=5,gap_ms=2") as server, connect(server.url) as client:
        client.sendall(request_bytes(max_tokens=2) + request_bytes(max_tokens=3))
        read = whole(read_until(client, b"0\r\n\r\n"))
        while read.count(b"[DONE]") < 2:
            read += client.recv(65536)

    assert [one.tokens for one in server.truth] == [2, 3]


def test_a_client_that_leaves_is_noted(serving):
    with serving("ttft_ms=5,gap_ms=10") as server:
        with connect(server.url) as client:
            client.sendall(request_bytes(max_tokens=500))
            read_until(client, b'"text"')
        ask(server.url, request_bytes(max_tokens=30))
    outcomes = sorted((one.outcome, one.tokens < 500) for one in server.truth)

    assert outcomes == [("gone", True), ("ok", True)]


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        (b"GET /v1/models HTTP/1.1\r\n\r\n", b"200", b'"id": "truth"'),
        (b"GET /health HTTP/1.1\r\n\r\n", b"200", b"ok"),
        (b"GET /v1/nothing HTTP/1.1\r\n\r\n", b"404", b"/v1/nothing"),
        (b"POST /v1/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n[]", b"400", b"JSON object"),
        (request_bytes(headers=["x-truth-pacing: gap=1"]), b"400", b"unknown setting"),
        (b"nonsense\r\n\r\n", b"400", b"METHOD TARGET VERSION"),
    ],
)
def test_other_requests_are_answered_in_kind(serving, request_, status, said):
    with serving("") as server:
        (reads,) = ask(server.url, request_, mark=b"}")
    answer = whole(reads)

    assert answer.split(b" ")[1] == status
    assert said in answer


def test_a_closing_request_closes_its_connection(serving):
    with serving("ttft_ms=5,gap_ms=2") as server, connect(server.url) as client:
        client.sendall(request_bytes(max_tokens=2, headers=["Connection: close"]))
        while client.recv(65536):
            pass

    assert server.truth[0].outcome == "ok"


def test_what_the_kernel_does_not_take_follows_later(serving):
    """A client that does not read fills the buffers; it still gets every byte in the end."""
    with (
        serving("ttft_ms=1,gap_ms=0,clump_events=500") as server,
        connect(server.url, receive_buffer_bytes=262_144) as client,
    ):
        client.sendall(request_bytes(max_tokens=60_000))
        time.sleep(1.0)  # the server runs full meanwhile; nothing depends on how full
        data = whole(read_until(client, b"\r\n0\r\n\r\n"))

    assert len(events_of(data)) == 60_000
    assert server.truth[0].blocked_writes > 0


def test_a_wrong_pacing_is_one_line_and_status_2():
    done = subprocess.run(
        [sys.executable, "-m", "phasemeter.testing.truth", "--pacing", "gap_ms=x"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr == "truth server: pacing: gap_ms must be a number from 0 up, got 'x'\n"


def runs(pid):
    """An ended process may stay listed until the system's first process has taken note."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_it_ends_with_the_process_that_started_it():
    code = (
        "import subprocess, sys\n"
        "one = subprocess.Popen([sys.executable, '-m', 'phasemeter.testing.truth'],"
        " stdout=subprocess.PIPE, text=True)\n"
        "print(one.stdout.readline(), flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    pid = json.loads(done.stdout)["pid"]
    try:
        deadline_ns = time.monotonic_ns() + 20 * 10**9
        while runs(pid) and time.monotonic_ns() < deadline_ns:
            time.sleep(0.05)

        assert not runs(pid)
    finally:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)


def test_sglangs_own_interface_repeats_the_text_and_counts_tokens(serving):
    """What its load tester reads of `/generate`: `text` so far and `meta_info.completion_tokens`."""
    body = {"sampling_params": {"temperature": 0.0, "max_new_tokens": 3, "ignore_eos": True}}
    with serving("ttft_ms=5,gap_ms=2") as server:
        (streamed,) = ask(server.url, request_bytes("/generate", prompt=None, text="hello", **body))
        plain = request_bytes("/generate", prompt=None, input_ids=[1, 2, 3], stream=False, **body)
        (answer,) = ask(server.url, plain, mark=b"}}")
    events = events_of(whole(streamed))

    assert [event["text"] for event in events] == [" amber", " amber birch", " amber birch cedar"]
    assert [event["meta_info"]["completion_tokens"] for event in events] == [1, 2, 3]
    assert events[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 3}
    assert whole(streamed).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    document = json.loads(whole(answer).partition(b"\r\n\r\n")[2])
    assert document["text"] == " amber birch cedar"
    assert [one.prompt_tokens for one in server.truth] == [5, 3]


def test_so_many_answers_at_a_time_and_the_rest_wait(serving):
    """Three requests at once on one slot: each is begun when the one before it has ended."""
    with serving("ttft_ms=10,gap_ms=5,slots=1") as server:
        clients = [connect(server.url) for _ in range(3)]
        for client in clients:
            client.sendall(request_bytes(max_tokens=4))
        for client in clients:
            read_until(client, b"\r\n0\r\n\r\n")
            client.close()
    first, second, third = server.truth

    assert first.admitted_ns == first.received_ns
    assert second.admitted_ns >= first.emit_ns[-1]
    assert third.admitted_ns >= second.emit_ns[-1]
    assert second.planned_ns[0] - second.admitted_ns == 10_000_000


def test_a_prompt_costs_time_unless_its_beginning_is_known(serving):
    """40 tokens at 2 ms; the second prompt shares 32 of them, in blocks of 16, and is told so."""
    shared = list(range(35))
    prompts = [[*shared, 1, 1, 1, 1, 1], [*shared, 2, 2, 2, 2, 2]]
    usage = {"include_usage": True}
    asks = [request_bytes(prompt=one, max_tokens=2, stream_options=usage) for one in prompts]
    with serving("ttft_ms=5,gap_ms=1,prompt_token_ms=2,prefix_cache=1,tells_cached=1") as server:
        answers = ask(server.url, *asks)
        ask(server.url, b"POST /flush_cache HTTP/1.1\r\n\r\n", mark=b"}")
        answers += ask(server.url, asks[0])
    told = [events_of(whole(one))[-1]["usage"]["prompt_tokens_details"] for one in answers]
    waits_ms = [(one.planned_ns[0] - one.received_ns) / 1e6 for one in server.truth]

    assert [one["cached_tokens"] for one in told] == [0, 32, 0]
    assert waits_ms == [85, 21, 85]
