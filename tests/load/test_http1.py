import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.load.http1 import HttpError, ResponseReader, json_bytes, request_bytes


class Received:
    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.headers_ns: int | None = None
        self.body = b""

    def on_headers(self, t_ns, status, headers):
        self.headers_ns, self.status, self.headers = t_ns, status, dict(headers)

    def on_body(self, t_ns, data):
        self.body += data


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
)


@given(cuts=st.sets(st.integers(1, len(CHUNKED) - 1)))
def test_a_response_is_the_same_however_it_is_cut(cuts):
    received = Received()
    reader = ResponseReader(received)
    edges = [0, *sorted(cuts), len(CHUNKED)]

    for t_ns, (start, end) in enumerate(itertools.pairwise(edges)):
        assert not reader.complete
        reader.feed(t_ns, CHUNKED[start:end])

    assert (received.status, received.body) == (200, b"hello world")
    assert received.headers["content-type"] == "text/event-stream"
    assert reader.complete
    assert reader.keeps_connection


def test_a_body_of_given_length_is_whole_with_its_last_byte():
    received = Received()
    reader = ResponseReader(received)

    reader.feed(1, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nab")
    assert not reader.complete
    assert not reader.closed_cleanly()
    reader.feed(2, b"cd")

    assert reader.complete
    assert not reader.keeps_connection
    assert (received.body, received.headers_ns) == (b"abcd", 1)


def test_a_body_without_length_ends_with_the_connection():
    reader = ResponseReader(Received())

    reader.feed(1, b"HTTP/1.1 200 OK\r\n\r\nabc")

    assert not reader.complete
    assert reader.closed_cleanly()


def test_a_close_before_the_headers_is_not_clean():
    reader = ResponseReader(Received())

    reader.feed(1, b"HTTP/1.1 200 OK\r\nContent-")

    assert not reader.closed_cleanly()


def test_an_interim_response_is_passed_over():
    received = Received()
    reader = ResponseReader(received)

    reader.feed(1, b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED)

    assert received.status == 200
    assert reader.complete


def test_what_is_not_http_is_an_error():
    with pytest.raises(HttpError):
        ResponseReader(Received()).feed(1, b"SSH-2.0-OpenSSH_9.2\r\n")


def test_a_request_says_its_length_and_carries_the_extra_headers():
    data = request_bytes("/v1/x", "h:80", json_bytes({"a": 1}), {"X-Extra": "y"})

    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x HTTP/1.1\r\nHost: h:80\r\n")
    assert b"\r\nContent-Length: 7" in head
    assert b"\r\nX-Extra: y" in head
    assert body == b'{"a":1}'
