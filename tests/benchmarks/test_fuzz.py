"""A bounded share of `python -m benchmarks.fuzz`, and the same properties with hypothesis's own cases."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz.__main__ import failures_in
from benchmarks.fuzz.checks import WrongError, check_bytes, check_split
from benchmarks.fuzz.receive import receive
from benchmarks.fuzz.wire import FRAMINGS, load_responses
from phasemeter.core.meter import StreamMeter
from phasemeter.dialects import BUILTIN
from phasemeter.load.http1 import ResponseReader
from phasemeter.testing.recorded import summary_of

RESPONSES = load_responses()
LINES = (
    "data: ",
    "data:",
    "event: ",
    ": ",
    "\n",
    "\r\n",
    "\r",
    "{}",
    "[DONE]",
    '{"choices":[',
    "]}",
)
HEADS = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\n",
    b"",
)


def test_a_share_of_the_cases():
    assert failures_in(seed=7, first=0, cases=400) == []


@settings(max_examples=60, deadline=None)
@given(
    response=st.sampled_from(RESPONSES),
    framing=st.sampled_from(FRAMINGS),
    chunking=st.randoms(use_true_random=False),
    cuts=st.lists(st.floats(0, 1), max_size=40),
)
def test_any_split_of_valid_bytes_counts_the_same(response, framing, chunking, cuts):
    wire = response.wire(framing, chunking)
    places = sorted({0, len(wire), *(round(cut * len(wire)) for cut in cuts)})
    reads = [(b, wire[a:b]) for a, b in pairwise(places)]
    ending = "close" if response.whole else "reset"

    def counted(reads):
        timeline = receive(response.dialect, reads, ending)
        told = summary_of(timeline)
        return {name: told[name] for name in told if not name.endswith(("_ms", "_events"))} | {
            "events": [(event.kind, event.tokens) for event in timeline.events]
        }

    assert counted(reads) == counted([(len(wire), wire)])


@settings(max_examples=80, deadline=None)
@given(
    head=st.sampled_from(HEADS),
    body=st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=6)), max_size=30),
    noise=st.binary(max_size=40),
    dialect=st.sampled_from(BUILTIN),
    random=st.randoms(use_true_random=False),
)
def test_bytes_of_any_kind_give_an_outcome(head, body, noise, dialect, random):
    written = "".join(body).encode("utf-8", errors="surrogatepass") + noise
    if b"chunked" in head:
        written = b"%x\r\n%b\r\n" % (len(written), written) if written else b""
    check_bytes(head + written, dialect, random)


@pytest.mark.parametrize("lost", ["read", "event"])
def test_a_planted_fault_is_found(monkeypatch, lost):
    """Short reads are dropped on their way to the parser, or to the meter."""
    place, name = (ResponseReader, "feed") if lost == "read" else (StreamMeter, "on_read")
    right = getattr(place, name)

    def faulty(self, t_ns, data):
        if len(data) != 3:
            right(self, t_ns, data)

    monkeypatch.setattr(place, name, faulty)

    def some() -> None:
        for number in range(300):
            check_split(Random(number))

    with pytest.raises(WrongError):
        some()


def test_what_follows_a_whole_response_is_not_its_fault():
    """Garbage, or the start of another response, in the same read or in one of its own."""
    wire = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
    for after in (b"\0garbage", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nagain"):
        taker = Taker()
        reader = ResponseReader(taker)
        reader.feed(1, wire + after)

        assert reader.complete
        assert not reader.keeps_connection
        assert (taker.statuses, taker.body) == ([200], b"{}")


class Taker:
    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.body = b""

    def on_headers(self, t_ns, status, headers):
        self.statuses.append(status)

    def on_body(self, t_ns, data):
        self.body += data
