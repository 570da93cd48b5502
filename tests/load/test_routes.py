"""The ways to a server, each with real sockets: IPv6, Unix sockets, TLS, proxies; driver and preflight."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import zlib
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import quote

import pytest

from phasemeter.core.errors import UsageError
from phasemeter.core.timeline import Outcome
from phasemeter.load.connecting import Connecting
from phasemeter.load.plan import UserFlow
from phasemeter.load.preflight import find_target
from phasemeter.load.proxy import Proxy, proxy_for
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer, chat_events
from phasemeter.transports.arrivals import HAS_KERNEL_STAMPS
from tests.load.conftest import ONE
from tests.load.relay import Relay

MS = 1_000_000
ANSWER = ScriptedReply.of_events(chat_events(first_ms=30, gap_ms=10))
KERNEL = "kernel" if HAS_KERNEL_STAMPS else "recv"
# Answers every question of a preflight.
PREFLIGHT = ScriptedReply(
    [ScriptedRead(0, (b'{"data": [{"id": "m"}], "choices": [], "usage": {"prompt_tokens": 8}}',))],
    headers=(("content-type", "application/json"),),
    framing="length",
)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http", "https", "all", "no"):
        for variable in (f"{name}_proxy", f"{name}_proxy".upper()):
            monkeypatch.delenv(variable, raising=False)


def target_of(url: str, *, connecting: Connecting | None = None, proxy: Proxy | None = None):
    endpoint = replace(parse_endpoint(url)[0], proxy=proxy)
    return Target(
        "single",
        (endpoint,),
        RequestStyle("chat", "m"),
        connecting=connecting or Connecting(),
    )


def find(url: str, **options):
    wanted = {"topology": "single", "model": None, "api": None, "headers": {}} | options
    return find_target([url], **wanted)


def assert_as_sent(timeline, server) -> None:
    """Eight tokens, each stamped when the server sent it; the first of the events is a role."""
    assert (timeline.outcome, len(timeline.events)) == (Outcome.OK, 8)
    sent_ns = server.served[-1].sent_ns[1:9]
    for event, truth_ns in zip(timeline.events, sent_ns, strict=True):
        assert -200 * MS < event.t_ns - truth_ns < 200 * MS
    assert timeline.started_ns <= timeline.connected_ns <= timeline.sent_ns <= timeline.headers_ns


def port_of(server: ScriptedServer) -> int:
    return int(server.url.rpartition(":")[2])


def test_ipv6(drive):
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with ScriptedServer(ANSWER) as server, Relay(listener, port_of(server)) as relay:
        (timeline,) = drive(f"http://[::1]:{relay.port}")
        head = server.served[0].head

        assert_as_sent(timeline, server)
    assert timeline.stamp_source == KERNEL
    assert f"Host: [::1]:{relay.port}\r\n".encode() in head + b"\r\n"


@contextmanager
def on_unix_socket(folder, reply):
    path = str(folder / "engine.sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    with ScriptedServer(reply) as server, Relay(listener, port_of(server)):
        yield server, f"http+unix://{quote(path, safe='')}"


def test_a_unix_socket(drive, tmp_path):
    users = UserFlow("u", (ONE,), users=2, start_s=0, stop_s=60, max_requests=6)
    with on_unix_socket(tmp_path, ANSWER) as (server, url):
        timelines = drive(url, users, duration_s=60)
        heads = [request.head for request in server.served]
        connections = {request.connection for request in server.served}

    assert [t.outcome for t in timelines] == [Outcome.OK] * 6
    assert {t.stamp_source for t in timelines} == {"recv"}  # the kernel stamps TCP only
    assert len(connections) == 2
    assert all(b"\r\nHost: localhost\r\n" in head for head in heads)


def test_a_preflight_over_a_unix_socket_finds_the_target(tmp_path):
    with on_unix_socket(tmp_path, PREFLIGHT) as (_, url):
        target = find(url)
        with pytest.raises(UsageError, match=r"--stamps: .*Unix socket"):
            find(url, connecting=Connecting(stamps="kernel"))

    assert target.style.prompt_ids
    assert target.endpoints[0].base_url == url + "/v1"


def test_a_unix_socket_that_is_not_there_is_told(drive, tmp_path):
    url = f"http+unix://{quote(str(tmp_path / 'none.sock'), safe='')}"
    with pytest.raises(UsageError, match=r"none\.sock/v1 \(No such file or directory\)"):
        find(url, model="m")


# TLS


@contextmanager
def behind_tls(certificate, reply):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    with ScriptedServer(reply) as server, Relay(listener, port_of(server), tls=context) as relay:
        yield server, f"https://localhost:{relay.port}"


@pytest.fixture
def trusted(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))


def test_tls_with_authorities_of_the_environment(drive, certificate, trusted):
    users = UserFlow("u", (ONE,), users=1, start_s=0, stop_s=60, max_requests=2)
    with behind_tls(certificate, ANSWER) as (server, url):
        first, second = drive(url, users, duration_s=60)
        connections = {request.connection for request in server.served}

        assert second.connected_ns is None
        assert_as_sent(replace(second, connected_ns=second.sent_ns), server)
    assert first.outcome is Outcome.OK
    assert {first.stamp_source, second.stamp_source} == {KERNEL}
    assert len(connections) == 1


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_told_to_accept_it(
    drive, certificate
):
    with behind_tls(certificate, ANSWER) as (server, url):
        (refused,) = drive(url)
        drive.timelines.clear()
        (accepted,) = drive("", target=target_of(url, connecting=Connecting(verify=False)))

        assert_as_sent(accepted, server)
    assert (refused.outcome, refused.error_type) == (Outcome.ERROR, "tls_error")


def test_a_preflight_tells_what_is_wrong_with_a_certificate(certificate, monkeypatch):
    with behind_tls(certificate, PREFLIGHT) as (_, url):
        with pytest.raises(UsageError, match="certificate verify failed"):
            find(url)
        assert find(url, connecting=Connecting(verify=False)).style.model == "m"
        monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
        with pytest.raises(UsageError, match="SSL_CERT_FILE: /no/such/file is not there"):
            find(url)


# Content codings, which are not asked for; some servers compress all the same.


def gzip_events() -> list[bytes]:
    coder = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    pieces = [
        coder.compress(f"data: {data}\n\n".encode()) + coder.flush(zlib.Z_SYNC_FLUSH)
        for _, data in chat_events()
    ]
    return [*pieces[:-1], pieces[-1] + coder.flush()]


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_a_compressed_stream_is_timed_event_by_event(drive, framing):
    reads = [ScriptedRead(30 + 10 * k, (piece,)) for k, piece in enumerate(gzip_events())]
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    with ScriptedServer(ScriptedReply(reads, headers=headers, framing=framing)) as server:
        (timeline,) = drive(server.url)

        assert_as_sent(timeline, server)
        assert b"\r\nAccept-Encoding: identity\r\n" in server.served[0].head
    assert len({event.read for event in timeline.events}) > 1


# Proxies


@contextmanager
def proxy_to(port: int, **options):
    with Relay(socket.create_server(("127.0.0.1", 0)), port, proxy="proxy", **options) as proxy:
        yield proxy


def test_a_proxy_is_asked_for_the_whole_url_and_resolves_the_name(drive, monkeypatch):
    with ScriptedServer(ANSWER) as server, proxy_to(port_of(server)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:p%40ss@127.0.0.1:{proxy.port}")
        endpoint, _ = parse_endpoint("http://engine.invalid:8000/v1")
        through = proxy_for(endpoint.scheme, endpoint.host, endpoint.port)
        target = target_of("http://engine.invalid:8000/v1", proxy=through)
        (timeline,) = drive("", target=target)

        assert_as_sent(timeline, server)
    (head,) = proxy.heads
    assert timeline.stamp_source == KERNEL
    assert head.startswith(b"POST http://engine.invalid:8000/v1/chat/completions HTTP/1.1\r\n")
    assert b"\r\nHost: engine.invalid:8000\r\n" in head
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"user:p@ss") in head


def test_tls_goes_through_a_tunnel_and_the_password_to_the_proxy_only(
    drive, certificate, trusted, monkeypatch
):
    with behind_tls(certificate, ANSWER) as (server, url), proxy_to(int(url[18:])) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"user:pass@127.0.0.1:{proxy.port}")
        through = proxy_for("https", "engine.invalid", 443)
        target = target_of(url, proxy=through)
        (timeline,) = drive("", target=target)

        assert_as_sent(timeline, server)
        assert b"proxy-authorization" not in server.served[0].head.lower()
    (head,) = proxy.heads
    authority = url.removeprefix("https://").encode()
    assert head.startswith(b"CONNECT " + authority + b" HTTP/1.1\r\nHost: " + authority + b"\r\n")
    assert b"\r\nProxy-Authorization: Basic " in head


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", b"SSH-2.0\r\n\r\n", b""]
)
def test_a_proxy_that_opens_no_tunnel_is_an_error_of_its_own(drive, trusted, answer):
    with ScriptedServer(ANSWER) as server, proxy_to(port_of(server), answer=answer) as proxy:
        target = target_of("https://engine.invalid/v1", proxy=Proxy("127.0.0.1", proxy.port))
        (timeline,) = drive("", target=target)

    assert (timeline.outcome, timeline.error_type) == (Outcome.ERROR, "proxy_refused")
    assert timeline.connected_ns is None


def test_a_preflight_goes_through_the_proxy_and_keeps_its_password_to_itself(monkeypatch):
    with ScriptedServer(PREFLIGHT) as server, proxy_to(port_of(server)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://user:pa55@127.0.0.1:{proxy.port}")
        target = find("http://engine.invalid/v1")

    text = json.dumps(target.as_document()) + repr(target)
    assert target.as_document()["endpoints"][0]["proxy"] == f"127.0.0.1:{proxy.port}"
    assert "pa55" not in text
    assert base64.b64encode(b"user:pa55").decode() not in text
    assert {head.split(b" ")[1] for head in proxy.heads} == {
        b"http://engine.invalid/v1/models",
        b"http://engine.invalid/v1/completions",
    }


def test_a_preflight_tells_that_the_proxy_refuses(monkeypatch):
    answer = b"HTTP/1.1 403 Forbidden\r\n\r\n"
    with ScriptedServer(PREFLIGHT) as server, proxy_to(port_of(server), answer=answer) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:pa55@127.0.0.1:{proxy.port}")
        with pytest.raises(UsageError, match=r"the proxy refuses .*403 Forbidden") as refusal:
            find("https://engine.invalid/v1")

    assert f"through proxy 127.0.0.1:{proxy.port}" in str(refusal.value)
    assert "pa55" not in str(refusal.value)


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({}, "http://h/v1", None),
        ({"http_proxy": "http://p:1"}, "http://h/v1", "p:1"),
        ({"http_proxy": "p"}, "http://h/v1", "p:80"),
        ({"http_proxy": "http://[::2]:3"}, "http://h/v1", "[::2]:3"),
        ({"HTTP_PROXY": "http://p:1", "http_proxy": "http://q:2"}, "http://h/v1", "q:2"),
        ({"http_proxy": "http://p:1"}, "https://h/v1", None),
        ({"all_proxy": "http://p:1"}, "https://h/v1", "p:1"),
        ({"ALL_PROXY": "socks5://p:1", "HTTPS_PROXY": "http://q:2"}, "https://h/v1", "q:2"),
        ({"http_proxy": "http://p:1", "no_proxy": "h"}, "http://h/v1", None),
        ({"http_proxy": "http://p:1", "NO_PROXY": "other, .lan"}, "http://h.lan/v1", None),
        ({"http_proxy": "http://p:1", "NO_PROXY": "h:8000"}, "http://h:8000/v1", None),
        ({"http_proxy": "http://p:1", "NO_PROXY": "h:8001"}, "http://h:8000/v1", "p:1"),
        ({"http_proxy": "http://p:1", "NO_PROXY": "2001:db8::1"}, "http://[2001:db8::1]", None),
        ({"http_proxy": "http://p:1", "NO_PROXY": "*"}, "http://h/v1", None),
        ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, "http://h/v1", None),
        ({"http_proxy": "http://p:1"}, "http://localhost:8000", None),
        ({"http_proxy": "http://p:1"}, "http://127.0.0.9:8000", None),
        ({"http_proxy": "http://p:1"}, "http://[::1]:8000", None),
    ],
)
def test_the_environment_decides_on_the_proxy(monkeypatch, environment, url, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    endpoint, _ = parse_endpoint(url)

    proxy = proxy_for(endpoint.scheme, endpoint.host, endpoint.port)

    assert (None if proxy is None else proxy.authority) == expected


@pytest.mark.parametrize(
    "url", ["socks5://u:pa55@p:1", "https://u:pa55@p", "http://u:pa55@p:x", "http://", "//"]
)
def test_a_proxy_that_is_none_of_ours_is_refused_without_its_password(monkeypatch, url):
    monkeypatch.setenv("ALL_PROXY", url)
    with pytest.raises(UsageError, match=r"^ALL_PROXY: .*accepted: http://") as refusal:
        proxy_for("http", "h", 80)

    assert "\n" not in str(refusal.value)
    assert "pa55" not in str(refusal.value)
