"""Byte streams that stamp what passes through; bytes, chunk boundaries and exceptions are untouched."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from functools import lru_cache
from typing import Protocol, cast

from phasemeter.core.errors import guard
from phasemeter.transports.call import TimedCall

_DIGEST_EVERY = 128
"""Chunks between two decodings, so that little is left for the end of a stream and few bytes are kept."""


class ClosableBytes(Iterable[bytes], Protocol):
    """A response body that is read by blocking."""

    def close(self) -> None: ...  # noqa: D102


class AsyncClosableBytes(AsyncIterable[bytes], Protocol):
    """A response body that is read by awaiting."""

    async def aclose(self) -> None: ...  # noqa: D102


class _Reads:
    """Tells the time of the read that brought the chunk just received."""

    __slots__ = ("_now_ns",)

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns

    @property
    def last_read_ns(self) -> int:
        return self._now_ns()

    def more_handed_over(self) -> None:
        """Nothing is known of the reads."""


class _Timed:
    """What the blocking and the async stream share. The base class is the family's own."""

    def __init__(self, inner: ClosableBytes | AsyncClosableBytes, call: TimedCall) -> None:
        self._inner = inner
        self._call = call

    def __del__(self) -> None:
        call = self.__dict__.get("_call")
        if call is not None and call.is_open:
            with guard("noting a dropped response"):
                call.on_drop()


class TimedByteStream(_Timed):
    """A blocking body with stamps."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the inner stream's chunks."""
        # hot: two clock reads, one stamp look-up, three appends a chunk; see benchmarks/sdk_chunk.py
        call = self._call
        now_ns = call.recorder.now_ns
        reads = call.source or _Reads(now_ns)
        unread = call.meter.unread
        stamp, keep = call.meter.times_ns.append, unread.append
        hand, give_back = call.consumer.handed, call.consumer.kept_ns.append
        try:
            for chunk in cast(ClosableBytes, self._inner):
                stamp(reads.last_read_ns or now_ns())
                keep(chunk)
                handed_ns = now_ns()
                if hand is not None:
                    hand(handed_ns)
                yield chunk
                give_back(now_ns() - handed_ns)
                if len(unread) >= _DIGEST_EVERY:
                    # Asked for more: the time until more arrives is ours.
                    _digest(call)
        except GeneratorExit:
            raise  # the iterator was dropped; the response may still be closed in good order
        except BaseException as error:
            call.on_error(error)
            raise
        call.on_end()

    def close(self) -> None:
        """Close the inner stream, then end the timing."""
        try:
            cast(ClosableBytes, self._inner).close()
        finally:
            self._call.on_close()


class TimedAsyncByteStream(_Timed):
    """An async body with stamps."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the inner stream's chunks."""
        # hot: as in TimedByteStream
        call = self._call
        now_ns = call.recorder.now_ns
        reads = call.source or _Reads(now_ns)
        unread = call.meter.unread
        stamp, keep = call.meter.times_ns.append, unread.append
        hand, give_back = call.consumer.handed, call.consumer.kept_ns.append
        before_ns = None
        try:
            async for chunk in cast(AsyncClosableBytes, self._inner):
                read_ns = reads.last_read_ns or now_ns()
                if read_ns == before_ns:
                    reads.more_handed_over()
                before_ns = read_ns
                stamp(read_ns)
                keep(chunk)
                handed_ns = now_ns()
                if hand is not None:
                    hand(handed_ns)
                yield chunk
                give_back(now_ns() - handed_ns)
                if len(unread) >= _DIGEST_EVERY:
                    _digest(call)
        except GeneratorExit:
            raise
        except BaseException as error:
            call.on_error(error)
            raise
        call.on_end()

    async def aclose(self) -> None:
        """Close the inner stream, then end the timing."""
        try:
            await cast(AsyncClosableBytes, self._inner).aclose()
        finally:
            self._call.on_close()


@lru_cache(maxsize=8)
def sync_stream_class(family_base: type) -> type[TimedByteStream]:
    """Return the blocking stream as a subclass of a family's `SyncByteStream` (clients check it)."""
    return type("TimedByteStream", (TimedByteStream, family_base), {})


@lru_cache(maxsize=8)
def async_stream_class(family_base: type) -> type[TimedAsyncByteStream]:
    """Return the async stream as a subclass of a family's `AsyncByteStream`."""
    return type("TimedAsyncByteStream", (TimedAsyncByteStream, family_base), {})


def _digest(call: TimedCall) -> None:
    with guard("decoding a response"):
        call.meter.digest()
