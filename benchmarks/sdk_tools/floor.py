"""No tool: the least that one must do which times the reads of a stream. What nothing can cost less than.

The time of each read is taken under the client library and kept with the bytes, in pure Python; at the end
the four events are parsed that say more than a piece of text. Nothing is made of it: no framing, no dialects,
no histograms, no errors, no other exits. With spans, three with as many attributes as phasemeter's.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.sdk_tools.tool import Telemetry, install
from phasemeter.core.clock import now_ns

_TEXT_EVENTS_END = -3
"""The finish, the usage and the end mark come after the text."""
_ATTRIBUTES = 20


class Floor:
    """The least, with or without spans.

    Args:
        name: Name of the row.
        note: What the row shows.
        spans: Whether spans are emitted.
    """

    environment = "bare"
    baseline = "bare"
    package = "openai"
    records_chunks = False
    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self, name: str, note: str, *, spans: bool) -> None:
        self.name = name
        self.note = note
        self._spans = spans

    def install(self, environment: Path) -> None:
        install(environment)

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        import openai

        is_async = isinstance(client, openai.AsyncOpenAI)
        end = _Spans(telemetry).end if self._spans else _end
        http = client._client
        pool = http._transport._pool
        pool._network_backend = _Backend(pool._network_backend, is_async=is_async)
        http._transport = _transport(http._transport, end, is_async=is_async)
        return client


def _end(times_ns: list[int], chunks: list[bytes]) -> None:
    """Parse what says more than a piece of text."""
    for chunk in (*chunks[:2], *chunks[_TEXT_EVENTS_END:-1]):
        json.loads(chunk[6:])
    del times_ns


class _Spans:
    def __init__(self, telemetry: Telemetry) -> None:
        self._tracer = telemetry.tracer_provider.get_tracer("floor")
        self._names = [f"gen_ai.attribute_{number}" for number in range(_ATTRIBUTES)]

    def end(self, times_ns: list[int], chunks: list[bytes]) -> None:
        from opentelemetry import context, trace

        _end(times_ns, chunks)
        here = context.get_current()
        span = self._tracer.start_span(
            "chat scripted",
            context=here,
            kind=trace.SpanKind.CLIENT,
            attributes=dict.fromkeys(self._names, times_ns[0]),
            start_time=times_ns[0],
        )
        inside = trace.set_span_in_context(span, here)
        for name in ("prefill", "decode"):
            phase = self._tracer.start_span(
                name, context=inside, attributes={"phase": name}, start_time=times_ns[0]
            )
            phase.end(times_ns[-1])
        span.end(times_ns[-1])


class _Backend:
    """Connects; its connections note when their last read returned."""

    def __init__(self, inner: Any, *, is_async: bool) -> None:
        self._inner = inner
        if is_async:
            self.connect_tcp = self._connect_async
        else:
            self.connect_tcp = self._connect

    def _connect(self, *args: object, **options: object) -> Any:
        return _Connection(self._inner.connect_tcp(*args, **options))

    async def _connect_async(self, *args: object, **options: object) -> Any:
        return _AsyncConnection(await self._inner.connect_tcp(*args, **options))


class _Connection:
    def __init__(self, inner: Any) -> None:
        self.read_ns = 0
        self._read = inner.read
        self.write = inner.write
        self.close = inner.close
        self.get_extra_info = inner.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        data = self._read(max_bytes, timeout)
        self.read_ns = now_ns()
        return data


class _AsyncConnection:
    def __init__(self, inner: Any) -> None:
        self.read_ns = 0
        self._read = inner.read
        self.write = inner.write
        self.aclose = inner.aclose
        self.get_extra_info = inner.get_extra_info

    async def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        data = await self._read(max_bytes, timeout)
        self.read_ns = now_ns()
        return data


def _transport(inner: Any, end: Callable[[list[int], list[bytes]], None], *, is_async: bool) -> Any:
    """Return a transport whose responses keep each chunk with the time of its read."""
    from benchmarks.openai_family import httpx

    class Stream(httpx.SyncByteStream, httpx.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, response: Any) -> None:
            self._inner = response.stream
            self._connection = response.extensions["network_stream"]
            self._times_ns: list[int] = []
            self._chunks: list[bytes] = []
            self._is_open = True

        def _finish(self) -> None:
            if self._is_open:
                self._is_open = False
                end(self._times_ns, self._chunks)

        def __iter__(self) -> Iterator[bytes]:
            connection = self._connection
            stamp, keep = self._times_ns.append, self._chunks.append
            for chunk in self._inner:
                stamp(connection.read_ns)
                keep(chunk)
                yield chunk
            self._finish()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            connection = self._connection
            stamp, keep = self._times_ns.append, self._chunks.append
            async for chunk in self._inner:
                stamp(connection.read_ns)
                keep(chunk)
                yield chunk
            self._finish()

        def close(self) -> None:
            self._inner.close()
            self._finish()

        async def aclose(self) -> None:
            await self._inner.aclose()
            self._finish()

    class Transport(httpx.BaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            response = inner.handle_request(request)
            response.stream = Stream(response)
            return response

    class AsyncTransport(httpx.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            response = await inner.handle_async_request(request)
            response.stream = Stream(response)
            return response

    return AsyncTransport() if is_async else Transport()
