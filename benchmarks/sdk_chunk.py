"""What the SDK adds to a chunk: the stamped stream against the bare one, and a whole response's end.

Run: python benchmarks/sdk_chunk.py. All in memory, no socket; the best of several rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import median
from typing import ClassVar

import httpx2

import phasemeter
from phasemeter.core.clock import now_ns
from phasemeter.sinks.hdr import HdrSink
from phasemeter.sinks.otel import OtelSink
from phasemeter.testing import chat_chunk, chat_events
from phasemeter.transports.call import open_call
from phasemeter.transports.streams import sync_stream_class

CHUNKS = 20_000
ROUNDS = 15


class Body(httpx2.SyncByteStream):
    """The chunks of a response, in memory."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks


class Reads:
    """A connection whose last read is always the same, so that nothing but the look-up is paid."""

    last_read_ns = 1
    last_write_ns = 1
    connected_ns = None
    stamp_source = "recv"
    clock_stepped = False
    waited_ns: ClassVar[dict[int, int]] = {}


def drained_us(stream: object) -> float:
    """Return the time of iterating a stream to its end, us a chunk."""
    started_ns = now_ns()
    for _ in stream:  # type: ignore[attr-defined]
        pass
    return (now_ns() - started_ns) / CHUNKS / 1000


def timed_stream(chunks: list[bytes], sinks: list[phasemeter.Sink], *, decode: bool) -> object:
    """Return the same body, timed; without decoding only the hot path is left."""
    meter = phasemeter.Meter(sinks=sinks)
    request = httpx2.Request("POST", "http://h/v1/chat/completions", json={"stream": True})
    call = open_call(meter, request)
    assert call is not None
    call.meter.on_headers(1, 200, {})
    call.source = Reads()
    call.consumer.supposes = False
    if not decode:
        call.meter.digest = lambda: None  # type: ignore[method-assign]
        call.on_end = lambda: None  # type: ignore[method-assign]
    return sync_stream_class(httpx2.SyncByteStream)(Body(chunks), call)


def hot_path_us_per_chunk(rounds: int = ROUNDS) -> float:
    """Return what stamping alone adds to a chunk, us: the best of the rounds, decoding left out."""
    chunks = [f"data: {chat_chunk({'content': ' token'})}\n\n".encode()] * CHUNKS
    bare, hot = [], []
    for _ in range(rounds):
        bare.append(drained_us(Body(chunks)))
        hot.append(drained_us(timed_stream(chunks, [], decode=False)))
    return min(hot) - min(bare)


def main() -> None:
    """Print the figures as JSON."""
    chunk = f"data: {chat_chunk({'content': ' token'})}\n\n".encode()
    chunks = [chunk] * CHUNKS
    bare, hot, whole = [], [], []
    for _ in range(ROUNDS):
        bare.append(drained_us(Body(chunks)))
        hot.append(drained_us(timed_stream(chunks, [], decode=False)))
        whole.append(drained_us(timed_stream(chunks, [], decode=True)))
    figures = {
        "bare_us_per_chunk": min(bare),
        "hot_path_us_per_chunk": min(hot) - min(bare),
        "hot_path_us_per_chunk_median": median(hot) - median(bare),
        "with_decoding_us_per_chunk": min(whole) - min(bare),
        "end_of_100_chunks_ms": end_of_response_ms(),
    }
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}, indent=1))


def end_of_response_ms() -> float:
    """Return how long the end of a response of 100 tokens takes, with histograms and API-only spans."""
    sinks: list[phasemeter.Sink] = [HdrSink(), OtelSink()]
    times_ms = []
    for _ in range(30):
        meter = phasemeter.Meter(sinks=sinks)
        request = httpx2.Request("POST", "http://h/v1/chat/completions", json={"stream": True})
        call = open_call(meter, request)
        assert call is not None
        call.meter.on_headers(1, 200, {})
        for number, (_, data) in enumerate(chat_events(kinds=("content",) * 100)):
            call.meter.on_read(number * 1_000_000 + 1, f"data: {data}\n\n".encode())
            if not number % 32:
                call.meter.digest()
        started_ns = now_ns()
        call.on_end()
        times_ms.append((now_ns() - started_ns) / 1e6)
    return min(times_ms)


if __name__ == "__main__":
    main()
