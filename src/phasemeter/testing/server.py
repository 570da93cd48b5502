"""A real HTTP server on loopback that answers by a script, for tests of what measures streams."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Literal, Self

from phasemeter.core.clock import NS_PER_MS, NS_PER_S, now_ns

_POLL_S = 0.05
_REASONS = {200: "OK", 400: "Bad Request", 429: "Too Many Requests", 500: "Internal Server Error"}


@dataclass(frozen=True, slots=True)
class ScriptedRead:
    """What one write of the server brings, and so, on loopback, one read of the client.

    Attributes:
        t_ms: When it is sent, from the end of the request.
        chunks: Body bytes; with chunked framing each element is one HTTP chunk.
    """

    t_ms: float
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One answer.

    Attributes:
        reads: Body, in order.
        status: HTTP status.
        headers: Further response headers.
        headers_t_ms: When the response headers are sent, from the end of the request.
        framing: `chunked`, `length` (needs the whole body known, which it is), or `close`.
        end: `eof` ends the body as the framing has it, `reset` resets the connection after the last
            read, `hang` keeps it open without a word until the client closes it or the server stops.
    """

    reads: Sequence[ScriptedRead]
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream"),)
    headers_t_ms: float = 0.0
    framing: Literal["chunked", "length", "close"] = "chunked"
    end: Literal["eof", "reset", "hang"] = "eof"

    @classmethod
    def of_events(cls, events: Sequence[tuple[float, str]], **options: object) -> ScriptedReply:
        """Return a reply of server-sent events, each (time in ms, data) in a read of its own."""
        reads = [ScriptedRead(t_ms, (f"data: {data}\n\n".encode(),)) for t_ms, data in events]
        return cls(reads, **options)  # type: ignore[arg-type]


@dataclass(slots=True)
class ServedRequest:
    """What the server saw and did for one request; times in ns on the process's monotonic clock.

    Attributes:
        head: Request line and headers.
        body: Request body.
        connection: Number of the connection it came on, from 0.
        received_ns: Last byte of the request read.
        headers_ns: Response headers handed to the kernel.
        sent_ns: Each scripted read handed to the kernel.
    """

    head: bytes
    body: bytes
    connection: int
    received_ns: int
    headers_ns: int | None = None
    sent_ns: list[int] = field(default_factory=list)


class ScriptedServer:
    """Answers the n-th request with the n-th reply, the last one again and again. HTTP/1.1, threads.

    Use as a context manager. Times are kept as well as the machine allows; what really happened is in
    `served`.

    Args:
        replies: The answers.
        tls: Serve https with this context; its certificate should be for `localhost`.

    Attributes:
        served: One entry a request, in order of arrival.
    """

    def __init__(self, *replies: ScriptedReply, tls: ssl.SSLContext | None = None) -> None:
        if not replies:
            msg = "replies: at least one reply is needed"
            raise ValueError(msg)
        self.served: list[ServedRequest] = []
        self._replies = replies
        self._tls = tls
        self._numbers = count()
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """Base URL, without a trailing slash."""
        if self._tls is not None:
            return f"https://localhost:{self._port}"
        return f"http://127.0.0.1:{self._port}"

    @property
    def open_connections(self) -> int:
        """Connections that neither side has closed."""
        return len(self._connections)

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close every connection and wait for the threads."""
        self._stop.set()
        _shut(self._listener)
        for connection in list(self._connections):
            _shut(connection)
        for thread in list(self._threads):
            thread.join()

    def _run(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        for number in count():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            self._connections.add(connection)
            self._run(self._serve, connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            pending = b""
            while not self._stop.is_set():
                request, pending = _read_request(connection, pending, number)
                if request is None:
                    return
                self.served.append(request)
                reply = self._replies[min(next(self._numbers), len(self._replies) - 1)]
                if not self._answer(connection, request, reply):
                    return
        except OSError:
            return  # the client went away, or the server was stopped
        finally:
            _shut(connection)
            self._connections.discard(connection)

    def _answer(
        self, connection: socket.socket, request: ServedRequest, reply: ScriptedReply
    ) -> bool:
        """Send a reply; tell whether the connection can be used again."""
        self._wait_until(request.received_ns, reply.headers_t_ms)
        connection.sendall(_head_of(reply))
        request.headers_ns = now_ns()
        for read in reply.reads:
            self._wait_until(request.received_ns, read.t_ms)
            connection.sendall(_framed(read, reply))
            request.sent_ns.append(now_ns())
        if reply.end == "hang":
            self._wait_for_close(connection)
            return False
        if reply.end == "reset":
            # Lingering for no time at all makes the close a reset.
            connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
            connection.close()
            return False
        if reply.framing == "chunked":
            connection.sendall(b"0\r\n\r\n")
        return reply.framing != "close"

    def _wait_for_close(self, connection: socket.socket) -> None:
        while not self._stop.is_set():
            readable, _, _ = select.select([connection], [], [], _POLL_S)
            if readable:
                return  # closed, or a request that nobody will answer

    def _wait_until(self, origin_ns: int, t_ms: float) -> None:
        while not self._stop.is_set():
            left_ns = origin_ns + round(t_ms * NS_PER_MS) - now_ns()
            if left_ns <= 0:
                return
            self._stop.wait(left_ns / NS_PER_S)


def _read_request(
    connection: socket.socket, pending: bytes, number: int
) -> tuple[ServedRequest | None, bytes]:
    while b"\r\n\r\n" not in pending:
        data = connection.recv(65_536)
        if not data:
            return None, b""
        pending += data
    head, _, body = pending.partition(b"\r\n\r\n")
    length_bytes = _content_length(head)
    while len(body) < length_bytes:
        body += connection.recv(65_536)
    request = ServedRequest(head, body[:length_bytes], number, now_ns())
    return request, body[length_bytes:]


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def _head_of(reply: ScriptedReply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Status')}"]
    lines += (f"{name}: {value}" for name, value in reply.headers)
    if reply.framing == "chunked":
        lines.append("transfer-encoding: chunked")
    elif reply.framing == "length":
        lines.append(f"content-length: {sum(len(c) for read in reply.reads for c in read.chunks)}")
    else:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _framed(read: ScriptedRead, reply: ScriptedReply) -> bytes:
    if reply.framing != "chunked":
        return b"".join(read.chunks)
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in read.chunks)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):  # not connected, or closed already
        one.shutdown(socket.SHUT_RDWR)
    one.close()
