"""A network in memory under httpcore: the whole client runs, nothing but the kernel is left out.

Each read returns one server-sent event as one HTTP chunk, always the same ones, so that every client
does the same number of reads however fast it is. An async read gives the event loop one turn, as a
socket that had to be waited for would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.openai_family import httpx

URL = "http://memory.invalid/v1"
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nopenai-processing-ms: 1\r\n\r\n"
)


def reply_of(events: Sequence[str]) -> list[bytes]:
    """Return the reads of a response with these events; the end comes with the last one."""
    chunks = [f"data: {data}\n\n".encode() for data in events]
    framed = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
    framed[-1] += b"0\r\n\r\n"
    return [_HEAD, *framed]


class _Connection:
    """Answers each request with the same reads."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._left: list[bytes] = []
        self._is_open = True
        network.open_connections += 1

    def take(self) -> bytes:
        return self._left.pop() if self._left else b""

    def give(self, data: bytes) -> None:
        if data.startswith(b"POST "):
            self._network.requests += 1
            self._left = self._network.reads[::-1]

    def put_away(self) -> None:
        if self._is_open:
            self._is_open = False
            self._network.open_connections -= 1

    def get_extra_info(self, info: str) -> object:
        return False if info == "is_readable" else None


class _BlockingConnection(_Connection):
    def read(self, *args: object, **options: object) -> bytes:
        return self.take()

    def write(self, buffer: bytes, **options: object) -> None:
        self.give(buffer)

    def close(self) -> None:
        self.put_away()


class _AsyncConnection(_Connection):
    async def read(self, *args: object, **options: object) -> bytes:
        await asyncio.sleep(0)
        data = self.take()
        if not self._left:
            self._network.on_last_read()
        return data

    async def write(self, buffer: bytes, **options: object) -> None:
        self.give(buffer)

    async def aclose(self) -> None:
        self.put_away()


class _Backend:
    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network

    def connect_tcp(self, *args: object, **options: object) -> _BlockingConnection:
        return _BlockingConnection(self._network)


class _AsyncBackend:
    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network

    async def connect_tcp(self, *args: object, **options: object) -> _AsyncConnection:
        return _AsyncConnection(self._network)


class MemoryNetwork:
    """Where the connections of in-memory HTTP clients lead.

    Attributes:
        reads: What the server sends to each request; may be changed between requests.
        requests: How many were served.
        open_connections: Connections that are not closed.
        on_last_read: Called as an async read brings the end of a response.
    """

    def __init__(self, reads: list[bytes]) -> None:
        self.reads = reads
        self.requests = 0
        self.open_connections = 0
        self.on_last_read: Callable[[], None] = lambda: None

    def client(self) -> Any:
        """Return a blocking HTTP client over this network."""
        transport = httpx.HTTPTransport(verify=False, limits=_NO_LIMITS)
        transport._pool._network_backend = _Backend(self)
        return httpx.Client(transport=transport)

    def async_client(self) -> Any:
        """Return an async HTTP client over this network."""
        transport = httpx.AsyncHTTPTransport(verify=False, limits=_NO_LIMITS)
        transport._pool._network_backend = _AsyncBackend(self)
        return httpx.AsyncClient(transport=transport)


_NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)
