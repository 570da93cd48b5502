"""Requests are cut out of a connection's bytes, however these arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.testing.truth.http_requests import BadRequestError, take_request

PLAIN = (
    b'POST /v1/completions?x=1 HTTP/1.1\r\nContent-Length: 8\r\nX-Request-ID: r1\r\n\r\n{"a": 1}'
)
CHUNKED = (
    b"POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    b'4;ext=1\r\n{"a"\r\n4\r\n: 1}\r\n0\r\n\r\n'
)


@given(st.lists(st.sampled_from([PLAIN, CHUNKED]), min_size=1, max_size=3), st.data())
def test_any_split_gives_the_same_requests(sent, data):
    stream = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    buffer, taken = bytearray(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        buffer += stream[start:end]
        while (request := take_request(buffer)) is not None:
            taken.append(request)

    assert [(one.path, one.json_body()) for one in taken] == [
        ("/v1/completions", {"a": 1}) for _ in sent
    ]
    assert not buffer


def test_header_names_are_lower_case():
    request = take_request(bytearray(PLAIN))

    assert request is not None
    assert request.headers["x-request-id"] == "r1"


@pytest.mark.parametrize(
    "data",
    [
        b"hello\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_bytes_that_are_no_request_are_refused(data):
    with pytest.raises(BadRequestError):
        take_request(bytearray(data))
