"""A network backend that notes the time of each socket read, wrapped around a connection pool's own.

httpcore and httpcore2 hand all I/O to a backend with three methods; httpx offers no argument for it, so
the pool's private attribute is set. Where that is missing (mock transports, other engines), nothing is
installed and the stamps are taken one layer higher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast


class Stamps(Protocol):
    """The times of one connection.

    Attributes:
        last_read_ns: When the last read returned; None before the first.
        last_write_ns: Just before the last write; None before the first.
        connected_ns: When the connection was usable; None once a second request uses it.
    """

    last_read_ns: int | None
    last_write_ns: int | None
    connected_ns: int | None


class NetworkStream(Protocol):
    """What is used of a blocking network stream; arguments pass through unread."""

    def read(self, *args: object, **options: object) -> bytes: ...  # noqa: D102
    def write(self, *args: object, **options: object) -> None: ...  # noqa: D102
    def start_tls(self, *args: object, **options: object) -> NetworkStream: ...  # noqa: D102


class AsyncNetworkStream(Protocol):
    """What is used of an async network stream; arguments pass through unread."""

    async def read(self, *args: object, **options: object) -> bytes: ...  # noqa: D102
    async def write(self, *args: object, **options: object) -> None: ...  # noqa: D102
    async def start_tls(self, *args: object, **options: object) -> AsyncNetworkStream: ...  # noqa: D102


class NetworkBackend(Protocol):
    """What is used of a blocking backend; addresses and options pass through unread."""

    def connect_tcp(self, *args: object, **options: object) -> NetworkStream: ...  # noqa: D102
    def connect_unix_socket(self, *args: object, **options: object) -> NetworkStream: ...  # noqa: D102


class AsyncNetworkBackend(Protocol):
    """What is used of an async backend."""

    async def connect_tcp(self, *args: object, **options: object) -> AsyncNetworkStream: ...  # noqa: D102
    async def connect_unix_socket(  # noqa: D102
        self, *args: object, **options: object
    ) -> AsyncNetworkStream: ...


class _Stamped:
    """Times of one connection; everything that is not timed goes to the inner stream."""

    def __init__(self, inner: object, now_ns: Callable[[], int]) -> None:
        self.inner = inner
        self.now_ns = now_ns
        self.last_read_ns: int | None = None
        self.last_write_ns: int | None = None
        self.connected_ns: int | None = now_ns()

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def _before_write(self) -> None:
        # A write after a read is a second request: it did not make this connection.
        if self.last_read_ns is not None:
            self.connected_ns = None


class StampedStream(_Stamped):
    """A blocking network stream with stamps."""

    def read(self, *args: object, **options: object) -> bytes:
        """Read, then note the time."""
        data = cast(NetworkStream, self.inner).read(*args, **options)
        self.last_read_ns = self.now_ns()
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


class AsyncStampedStream(_Stamped):
    """An async network stream with stamps."""

    async def read(self, *args: object, **options: object) -> bytes:
        """Read, then note the time."""
        data = await cast(AsyncNetworkStream, self.inner).read(*args, **options)
        self.last_read_ns = self.now_ns()
        return data

    async def write(self, *args: object, **options: object) -> None:
        """Note the time, then write: the peer may answer before the call returns."""
        self._before_write()
        self.last_write_ns = self.now_ns()
        await cast(AsyncNetworkStream, self.inner).write(*args, **options)

    async def start_tls(self, *args: object, **options: object) -> AsyncStampedStream:
        """Start TLS; the connection counts as usable from now."""
        inner = await cast(AsyncNetworkStream, self.inner).start_tls(*args, **options)
        return AsyncStampedStream(inner, self.now_ns)


class StampingBackend:
    """A blocking network backend whose streams are stamped."""

    def __init__(self, inner: NetworkBackend, now_ns: Callable[[], int]) -> None:
        self._inner = inner
        self._now_ns = now_ns

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def connect_tcp(self, *args: object, **options: object) -> StampedStream:
        """Connect as the inner backend does."""
        return StampedStream(self._inner.connect_tcp(*args, **options), self._now_ns)

    def connect_unix_socket(self, *args: object, **options: object) -> StampedStream:
        """Connect as the inner backend does."""
        return StampedStream(self._inner.connect_unix_socket(*args, **options), self._now_ns)


class AsyncStampingBackend:
    """An async network backend whose streams are stamped."""

    def __init__(self, inner: AsyncNetworkBackend, now_ns: Callable[[], int]) -> None:
        self._inner = inner
        self._now_ns = now_ns

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def connect_tcp(self, *args: object, **options: object) -> AsyncStampedStream:
        """Connect as the inner backend does."""
        return AsyncStampedStream(await self._inner.connect_tcp(*args, **options), self._now_ns)

    async def connect_unix_socket(self, *args: object, **options: object) -> AsyncStampedStream:
        """Connect as the inner backend does."""
        stream = await self._inner.connect_unix_socket(*args, **options)
        return AsyncStampedStream(stream, self._now_ns)


def install(transport: object, now_ns: Callable[[], int], *, is_async: bool) -> bool:
    """Wrap the network backend of a transport's pool; connections made from now on are stamped.

    Idempotent. Returns False where the transport has no such pool.
    """
    pool = getattr(transport, "_pool", None)
    inner = getattr(pool, "_network_backend", None)
    if inner is None:
        return False
    if not isinstance(inner, StampingBackend | AsyncStampingBackend):
        backend = AsyncStampingBackend if is_async else StampingBackend
        pool._network_backend = backend(inner, now_ns)  # type: ignore[union-attr]
    return True


def stamps_of(extensions: object, now_ns: Callable[[], int]) -> Stamps | None:
    """Return the stamps of a response's connection, or None where there are none to be had.

    None for connections that were not made through `install`, for one that is stamped by another
    clock, and for HTTP/2, where the reads of several responses share a connection.
    """
    if not isinstance(extensions, dict) or extensions.get("http_version") == b"HTTP/2":
        return None
    stream = extensions.get("network_stream")
    if isinstance(stream, _Stamped) and stream.now_ns == now_ns and stream.last_read_ns:
        return stream
    return None
