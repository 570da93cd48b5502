"""The scripted server: boundaries, framings and ends are as the script has them."""

import httpx2
import pytest

from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer

READS = (ScriptedRead(0, (b"a", b"bc")), ScriptedRead(5, (b"d",)))


def get(server):
    with httpx2.Client() as client, client.stream("GET", server.url) as response:
        return response, list(response.iter_raw())


def test_chunk_boundaries_arrive_as_scripted():
    """Chunked framing keeps them within and across writes."""
    with ScriptedServer(ScriptedReply(READS)) as server:
        response, chunks = get(server)

    assert chunks == [b"a", b"bc", b"d"]
    assert response.headers["transfer-encoding"] == "chunked"


@pytest.mark.parametrize("framing", ["length", "close"])
def test_other_framings_bring_the_same_bytes(framing):
    """By content-length, or until the connection closes."""
    with ScriptedServer(ScriptedReply(READS, framing=framing)) as server:
        response, chunks = get(server)

    assert b"".join(chunks) == b"abcd"
    assert ("content-length" in response.headers) == (framing == "length")


def test_nothing_is_sent_before_its_time():
    """Times count from the end of the request; the log says what really happened."""
    reply = ScriptedReply((ScriptedRead(30, (b"a",)), ScriptedRead(60, (b"b",))), headers_t_ms=15)
    with ScriptedServer(reply) as server:
        get(server)
        (served,) = server.served

    assert served.headers_ns - served.received_ns >= 15_000_000
    assert served.sent_ns[0] - served.received_ns >= 30_000_000
    assert served.sent_ns[1] - served.received_ns >= 60_000_000


def test_a_reset_is_an_error_at_the_client():
    """After the scripted reads."""
    with (
        ScriptedServer(ScriptedReply(READS, end="reset")) as server,
        pytest.raises(httpx2.TransportError),
    ):
        get(server)


def test_replies_are_given_in_order_and_the_last_one_stays():
    """Also on one kept connection; bodies are kept for a look."""
    with ScriptedServer(ScriptedReply([], status=500), ScriptedReply(READS)) as server:
        with httpx2.Client() as client:
            statuses = [client.post(server.url, content=b"q").status_code for _ in range(3)]
        served = list(server.served)

    assert statuses == [500, 200, 200]
    assert [one.body for one in served] == [b"q"] * 3
    assert {one.connection for one in served} == {0}


def test_a_hanging_reply_ends_with_the_server():
    """stop() does not wait for it."""
    with ScriptedServer(ScriptedReply(READS, end="hang")) as server:
        client = httpx2.Client(timeout=0.2)
        with pytest.raises(httpx2.ReadTimeout):
            client.get(server.url)
        client.close()


def test_a_server_without_a_reply_is_refused():
    """There would be nothing to answer."""
    with pytest.raises(ValueError, match="at least one reply"):
        ScriptedServer()
