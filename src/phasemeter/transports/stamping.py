"""A network backend that notes the time of each socket read, wrapped around a connection pool's own.

httpcore and httpcore2 hand all I/O to a backend with three methods; httpx offers no argument for it, so
the pool's private attribute is set. Where that is missing (mock transports, other engines), nothing is
installed and the stamps are taken one layer higher.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from phasemeter.core.clock import NS_PER_US
from phasemeter.core.timeline import StampSource
from phasemeter.transports.direct_read import direct_read, readable_check
from phasemeter.transports.dropped import running_loop
from phasemeter.transports.network import (
    AsyncNetworkBackend,
    AsyncNetworkStream,
    NetworkBackend,
    NetworkStream,
)

if TYPE_CHECKING:
    from phasemeter.transports.direct_async_read import DirectAsyncRead
    from phasemeter.transports.read_ahead import ReadAhead


AWAY_NS = 200 * NS_PER_US
"""Who asks again within this time cannot have kept much waiting, and is spared a look at the socket."""


class Stamps(Protocol):
    """The times of one connection.

    Attributes:
        last_read_ns: When the bytes that the last read handed over arrived; None before the first.
        last_write_ns: Just before the last write; None before the first.
        connected_ns: When the connection was usable; None once a second request uses it.
    """

    last_read_ns: int | None
    last_write_ns: int | None
    connected_ns: int | None

    @property
    def waited_ns(self) -> Mapping[int, int]:
        """Reads of this exchange whose bytes were there before the consumer asked for them.

        Not those that were read ahead. By the time of the read, how long the consumer had been away. The
        time of such a read is that of its last bytes (`kernel`) or of the asking (`recv`); its first
        bytes may have come before, by no more than the consumer was away.
        """
        ...

    @property
    def stamp_source(self) -> StampSource:
        """Where the times of the reads of this exchange come from."""
        ...

    @property
    def clock_stepped(self) -> bool:
        """Tells whether the times of this exchange cannot be trusted."""
        ...

    def open_body(self) -> None:
        """Note arrivals in time from now on, also while the consumer is busy."""
        ...

    def more_handed_over(self) -> None:
        """The consumer has got another chunk of the last read, and so did not ask the connection."""
        ...

    def close_body(self) -> None:
        """The timed body has ended; to be called once for each `open_body`, from any thread."""
        ...


class Stamped:
    """Times of one connection.

    Without a `__getattr__` for what else an inner stream may have: Python reads every attribute of such
    an object the slow way, several a chunk. The five methods are all that a network stream is.
    """

    def __init__(self, inner: object, now_ns: Callable[[], int]) -> None:
        self.inner = inner
        self.now_ns = now_ns
        self.last_read_ns: int | None = None
        self.last_write_ns: int | None = None
        self.connected_ns: int | None = now_ns()
        self._waited_ns: dict[int, int] = {}

    @property
    def stamp_source(self) -> StampSource:
        """The clock is read as the read returns."""
        return "recv"

    @property
    def clock_stepped(self) -> bool:
        """The clock is the monotonic one."""
        return False

    @property
    def waited_ns(self) -> Mapping[int, int]:
        """Reads that had waited for the consumer."""
        return self._waited_ns

    def open_body(self) -> None:
        """Blocking reads cannot be made ahead: they are made when the consumer asks."""

    def more_handed_over(self) -> None:
        """A blocking read tells how long it had not been asked for."""

    def close_body(self) -> None:
        """Nothing was begun."""

    def _before_write(self) -> None:
        # A write after a read is a second request: it did not make this connection.
        if self.last_read_ns is not None:
            self.connected_ns = None
        if self._waited_ns:
            self._waited_ns = {}


class StampedStream(Stamped):
    """A blocking network stream with stamps."""

    def __init__(self, inner: NetworkStream, now_ns: Callable[[], int]) -> None:
        super().__init__(inner, now_ns)
        self._inner_read = direct_read(inner)
        self._is_readable = readable_check(inner)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read, then note the time."""
        # hot
        now_ns, last_ns = self.now_ns, self.last_read_ns
        since_last_ns = 0 if last_ns is None else now_ns() - last_ns
        away = since_last_ns >= AWAY_NS and self._is_readable()
        data = self._inner_read(max_bytes, timeout)
        self.last_read_ns = last_ns = now_ns()
        if away:
            self._waited_ns[last_ns] = since_last_ns
        return data

    def write(self, *args: object, **options: object) -> None:
        """Note the time, then write: the peer may answer before the call returns."""
        self._before_write()
        self.last_write_ns = self.now_ns()
        cast(NetworkStream, self.inner).write(*args, **options)

    def start_tls(self, *args: object, **options: object) -> StampedStream:
        """Start TLS; the connection counts as usable from now."""
        inner = cast(NetworkStream, self.inner).start_tls(*args, **options)
        return StampedStream(inner, self.now_ns)

    def close(self) -> None:
        """Close the inner stream."""
        cast(NetworkStream, self.inner).close()

    def get_extra_info(self, info: str) -> object:
        """Return the inner stream's information."""
        return cast(NetworkStream, self.inner).get_extra_info(info)


class AsyncStampedStream(Stamped):
    """An async network stream with stamps, which reads ahead while a timed body is open."""

    def __init__(self, inner: AsyncNetworkStream, now_ns: Callable[[], int]) -> None:
        super().__init__(inner, now_ns)
        self._inner_read = inner.read
        self._is_readable = readable_check(inner)
        self._ahead: ReadAhead | None = None
        self._direct: DirectAsyncRead | None = None
        if in_asyncio_task():
            from phasemeter.transports.direct_async_read import direct_async_read

            self._direct = direct_async_read(inner)
        if self._direct is not None:
            self._inner_read = self._direct.read

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived, or read and note the time."""
        # hot
        ahead, last_ns = self._ahead, self.last_read_ns
        if ahead is not None:
            ahead.consumer_reads = True
            last_ns = ahead.returned_ns
            if ahead.is_behind:
                self.last_read_ns, data, since_last_ns = await ahead.read(max_bytes, timeout)
                if since_last_ns:
                    self._waited_ns[self.last_read_ns] = since_last_ns
                return data
        now_ns = self.now_ns
        since_last_ns = 0 if last_ns is None else now_ns() - last_ns
        away = since_last_ns >= AWAY_NS and self._is_readable()
        data = await self._inner_read(max_bytes, timeout)
        self.last_read_ns = last_ns = now_ns()
        if away:
            self._waited_ns[last_ns] = since_last_ns
        if ahead is not None and data:
            if ahead.check_is_due:
                ahead.consumer_reads = False
                ahead.returned_ns = last_ns
            else:
                ahead.handed_over(last_ns)
        return data

    async def write(self, *args: object, **options: object) -> None:
        """Note the time, then write: the peer may answer before the call returns."""
        if self._ahead is not None:
            await self._ahead.settle()
        self._before_write()
        self.last_write_ns = self.now_ns()
        await cast(AsyncNetworkStream, self.inner).write(*args, **options)

    async def start_tls(self, *args: object, **options: object) -> AsyncStampedStream:
        """Start TLS; the connection counts as usable from now."""
        inner = await cast(AsyncNetworkStream, self.inner).start_tls(*args, **options)
        return AsyncStampedStream(inner, self.now_ns)

    async def aclose(self) -> None:
        """End a read ahead, then close."""
        try:
            if self._ahead is not None:
                await self._ahead.stop()
        finally:
            if self._direct is not None:
                self._direct.close()
            await cast(AsyncNetworkStream, self.inner).aclose()

    def get_extra_info(self, info: str) -> object:
        """Return the inner stream's information; what was read ahead counts as readable."""
        if info == "is_readable" and self._ahead is not None and self._ahead.holds_data:
            return True
        return cast(AsyncNetworkStream, self.inner).get_extra_info(info)

    def open_body(self) -> None:
        """Read ahead from now on, under asyncio; elsewhere reads are stamped when asked for."""
        if self._ahead is None and in_asyncio_task():
            from phasemeter.transports.read_ahead import ReadAhead

            self._ahead = ReadAhead(self._inner_read, self._is_readable, self.now_ns)
        if self._ahead is not None:
            self._ahead.open_body()

    def more_handed_over(self) -> None:
        """See whether the consumer keeps the loop from turning with this chunk, too."""
        if self._ahead is not None:
            self._ahead.more_handed_over(self.now_ns())

    def close_body(self) -> None:
        """End reading ahead."""
        if self._ahead is not None:
            self._ahead.close_body()


class StampingBackend:
    """A blocking network backend whose streams are stamped.

    Args:
        inner: The backend that connects.
        stamped: Makes a stamped stream of one of its streams.
    """

    def __init__(self, inner: object, stamped: Callable[[NetworkStream], NetworkStream]) -> None:
        self._inner = cast(NetworkBackend, inner)
        self._stamped = stamped

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def connect_tcp(self, *args: object, **options: object) -> NetworkStream:
        """Connect as the inner backend does."""
        return self._stamped(self._inner.connect_tcp(*args, **options))

    def connect_unix_socket(self, *args: object, **options: object) -> NetworkStream:
        """Connect as the inner backend does."""
        return self._stamped(self._inner.connect_unix_socket(*args, **options))


class AsyncStampingBackend:
    """An async network backend whose streams are stamped.

    Args:
        inner: The backend that connects.
        stamped: Makes a stamped stream of one of its streams.
    """

    def __init__(
        self, inner: object, stamped: Callable[[AsyncNetworkStream], AsyncNetworkStream]
    ) -> None:
        self._inner = cast(AsyncNetworkBackend, inner)
        self._stamped = stamped

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def connect_tcp(self, *args: object, **options: object) -> AsyncNetworkStream:
        """Connect as the inner backend does."""
        return self._stamped(await self._inner.connect_tcp(*args, **options))

    async def connect_unix_socket(self, *args: object, **options: object) -> AsyncNetworkStream:
        """Connect as the inner backend does."""
        return self._stamped(await self._inner.connect_unix_socket(*args, **options))


def install(transport: object, now_ns: Callable[[], int], *, is_async: bool) -> bool:
    """Wrap the network backend of a transport's pool; connections made from now on are stamped.

    Idempotent. Returns False where the transport has no such pool.
    """
    pool = getattr(transport, "_pool", None)
    inner = getattr(pool, "_network_backend", None)
    if inner is None:
        return False
    if not isinstance(inner, StampingBackend | AsyncStampingBackend):
        backend: StampingBackend | AsyncStampingBackend
        if is_async:
            backend = AsyncStampingBackend(inner, lambda one: AsyncStampedStream(one, now_ns))
        else:
            backend = StampingBackend(inner, lambda one: StampedStream(one, now_ns))
        pool._network_backend = backend  # type: ignore[union-attr]
    return True


def stamps_of(extensions: object, now_ns: Callable[[], int]) -> Stamps | None:
    """Return the stamps of a response's connection, or None where there are none to be had.

    None for connections that were not made through `install`, for one that is stamped by another
    clock, and for HTTP/2, where the reads of several responses share a connection.
    """
    if not isinstance(extensions, dict) or extensions.get("http_version") == b"HTTP/2":
        return None
    stream = extensions.get("network_stream")
    if isinstance(stream, Stamped) and stream.now_ns == now_ns and stream.last_read_ns:
        return stream
    return None


def in_asyncio_task() -> bool:
    """Tell whether asyncio runs this; not so under trio, nor under trio as a guest of asyncio."""
    return running_loop() is not None and sys.modules["asyncio"].current_task() is not None
