"""Network streams that read the socket themselves, for the kernel's receive stamps.

Connecting, writing and closing stay with the HTTP library's own streams; only the reads, and with them
TLS, are done here. Exceptions are of the library's own classes.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from phasemeter.core.timeline import StampSource
from phasemeter.transports.arrivals import HAS_KERNEL_STAMPS, Arrivals, keep_stamping
from phasemeter.transports.network import (
    AsyncNetworkStream,
    NetworkErrors,
    NetworkStream,
    errors_of,
)
from phasemeter.transports.stamping import (
    AsyncStampedStream,
    AsyncStampingBackend,
    Stamped,
    StampedStream,
    StampingBackend,
    in_asyncio_task,
)
from phasemeter.transports.tls import TlsSession

if TYPE_CHECKING:
    from phasemeter.transports.socket_reader import SocketReader

_READ_BYTES = 65_536
_ALERT_S = 1.0


class _KernelStamped(Stamped):
    """What both streams share.

    Args:
        inner: The HTTP library's stream.
        now_ns: The clock.
        arrivals: The reads of its socket.
        errors: The HTTP library's exceptions.
        tls: The session on the connection, if any.
    """

    def __init__(
        self,
        inner: object,
        now_ns: Callable[[], int],
        arrivals: Arrivals,
        errors: NetworkErrors,
        tls: TlsSession | None,
    ) -> None:
        super().__init__(inner, now_ns)
        self._arrivals = arrivals
        self._errors = errors
        self._tls = tls
        self._left = b""
        self._exchange_begins = True

    @property
    def stamp_source(self) -> StampSource:
        return self._arrivals.source

    @property
    def clock_stepped(self) -> bool:
        self._arrivals.end()
        return self._arrivals.clock_stepped

    def _to_send(self, data: bytes) -> bytes:
        if self._exchange_begins:
            self._exchange_begins = False
            self._arrivals.begin()
        self._before_write()
        if self._tls is not None:
            try:
                data = self._tls.encrypt(data)
            except ssl.SSLError as error:
                raise self._errors.WriteError(error) from error
        self.last_write_ns = self.now_ns()
        return data

    def _hand_over(self, data: bytes, most_bytes: int) -> bytes:
        self._exchange_begins = True
        self._left = data[most_bytes:]
        return data[:most_bytes]

    def _extra_info(self, info: str, *, holds_data: bool) -> object:
        if info == "ssl_object":
            return None if self._tls is None else self._tls.object
        if info == "is_readable" and (self._left or holds_data):
            return True
        return cast(NetworkStream, self.inner).get_extra_info(info)

    def _connect_failure(self, error: Exception) -> Exception | None:
        """Return how the HTTP library calls what went wrong in a TLS handshake."""
        if isinstance(error, TimeoutError | self._errors.WriteTimeout):
            return self._errors.ConnectTimeout(error)
        if isinstance(error, OSError | self._errors.WriteError):
            return self._errors.ConnectError(error)
        return None


class KernelStream(_KernelStamped):
    """A blocking network stream with kernel stamps."""

    def __init__(
        self,
        inner: object,
        now_ns: Callable[[], int],
        sock: socket.socket,
        arrivals: Arrivals,
        errors: NetworkErrors,
        tls: TlsSession | None = None,
    ) -> None:
        super().__init__(inner, now_ns, arrivals, errors, tls)
        self._socket = sock
        self._returned_ns = now_ns()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes; `last_read_ns` is when the last of them arrived."""
        if self._left:
            return self._hand_over(self._left, max_bytes)
        tls = self._tls
        asked_ns = self.now_ns()
        try:
            if self._socket.gettimeout() != timeout:
                self._socket.settimeout(timeout)
            t_ns, data = self._arrivals.receive(max_bytes)
            while tls is not None and data:
                data = tls.decrypt(data)
                to_send = tls.encrypt(b"")
                if to_send:
                    cast(NetworkStream, self.inner).write(to_send, timeout)
                if data or tls.ended:
                    break
                t_ns, data = self._arrivals.receive(max_bytes)
        except TimeoutError as error:
            raise self._errors.ReadTimeout(error) from error
        except OSError as error:
            raise self._errors.ReadError(error) from error
        if t_ns < asked_ns:
            self._waited_ns[t_ns] = asked_ns - self._returned_ns
        self.last_read_ns = t_ns
        self._returned_ns = self.now_ns()
        return self._hand_over(data, max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Note the time, then write: the peer may answer before the call returns."""
        data = self._to_send(buffer)
        cast(NetworkStream, self.inner).write(data, timeout)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> KernelStream:
        """Start TLS; the connection counts as usable from now."""
        inner = cast(NetworkStream, self.inner)
        tls: TlsSession | None = None
        try:
            tls = TlsSession(ssl_context, server_hostname, self._tls)
            received: bytes | None = None
            while not tls.shake_hands(received):
                inner.write(tls.encrypt(b""), timeout)
                self._socket.settimeout(timeout)
                _, received = self._arrivals.receive(_READ_BYTES)
            inner.write(tls.encrypt(b""), timeout)
        except Exception as error:
            if tls is not None:
                with suppress(Exception):  # the alert
                    inner.write(tls.encrypt(b""), _ALERT_S)
            inner.close()
            failure = self._connect_failure(error)
            if failure is None:
                raise
            raise failure from error
        stream = KernelStream(inner, self.now_ns, self._socket, self._arrivals, self._errors, tls)
        stream._left = tls.decrypt(b"")
        return stream

    def close(self) -> None:
        """Close the inner stream."""
        cast(NetworkStream, self.inner).close()

    def get_extra_info(self, info: str) -> object:
        """Return the inner stream's information, but for what is known here."""
        return self._extra_info(info, holds_data=False)


class AsyncKernelStream(_KernelStamped):
    """An asyncio network stream with kernel stamps, which reads ahead while a timed body is open."""

    def __init__(
        self,
        inner: object,
        now_ns: Callable[[], int],
        reader: SocketReader,
        errors: NetworkErrors,
        tls: TlsSession | None = None,
    ) -> None:
        super().__init__(inner, now_ns, reader.arrivals, errors, tls)
        self._reader = reader

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes; `last_read_ns` is when the last of them arrived."""
        if self._left:
            return self._hand_over(self._left, max_bytes)
        tls = self._tls
        try:
            t_ns, data, away_ns = await self._reader.read(timeout)
            while tls is not None and data:
                data = tls.decrypt(data)
                to_send = tls.encrypt(b"")
                if to_send:
                    await cast(AsyncNetworkStream, self.inner).write(to_send, timeout)
                if data or tls.ended:
                    break
                t_ns, data, more_ns = await self._reader.read(timeout)
                away_ns = max(away_ns, more_ns)
        except TimeoutError as error:
            raise self._errors.ReadTimeout(error) from error
        except OSError as error:
            raise self._errors.ReadError(error) from error
        if away_ns:
            self._waited_ns[t_ns] = away_ns
        self.last_read_ns = t_ns
        return self._hand_over(data, max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Note the time, then write: the peer may answer before the call returns."""
        data = self._to_send(buffer)
        await cast(AsyncNetworkStream, self.inner).write(data, timeout)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> AsyncKernelStream:
        """Start TLS; the connection counts as usable from now."""
        inner = cast(AsyncNetworkStream, self.inner)
        tls: TlsSession | None = None
        try:
            tls = TlsSession(ssl_context, server_hostname, self._tls)
            received: bytes | None = None
            left = self._reader.time_left(timeout)
            while not tls.shake_hands(received):
                await inner.write(tls.encrypt(b""), left())
                _, received, _ = await self._reader.read(left())
            await inner.write(tls.encrypt(b""), left())
        except Exception as error:
            if tls is not None:
                with suppress(Exception):  # the alert
                    await inner.write(tls.encrypt(b""), _ALERT_S)
            await self.aclose()
            failure = self._connect_failure(error)
            if failure is None:
                raise
            raise failure from error
        stream = AsyncKernelStream(inner, self.now_ns, self._reader, self._errors, tls)
        stream._left = tls.decrypt(b"")
        return stream

    async def aclose(self) -> None:
        """End reading, then close."""
        self._reader.close()
        await cast(AsyncNetworkStream, self.inner).aclose()

    def get_extra_info(self, info: str) -> object:
        """Return the inner stream's information, but for what is known here."""
        return self._extra_info(info, holds_data=self._reader.holds_data)

    def open_body(self) -> None:
        """Read whatever arrives from now on, within a bound."""
        self._reader.open_body()

    def more_handed_over(self) -> None:
        """See whether the consumer keeps the loop from turning with this chunk, too."""
        self._reader.more_handed_over()

    def close_body(self) -> None:
        """Read only when asked again."""
        self._reader.close_body()


def install_kernel_stamps(transport: object, now_ns: Callable[[], int], *, is_async: bool) -> bool:
    """Have the connections that a transport's pool makes from now on read for kernel stamps.

    A stream whose socket cannot be had (trio, a backend of the caller's own, no descriptor left) is
    stamped as `install` does it, and so is every one on a system without kernel stamps. Returns False
    where the transport has no pool, or one that is stamped already.
    """
    pool = getattr(transport, "_pool", None)
    inner = getattr(pool, "_network_backend", None)
    errors = next(filter(None, map(errors_of, type(pool).__mro__)), None)
    if not HAS_KERNEL_STAMPS or inner is None or errors is None:
        return False
    if isinstance(inner, StampingBackend | AsyncStampingBackend):
        return False
    backend: StampingBackend | AsyncStampingBackend
    if is_async:
        backend = AsyncStampingBackend(inner, lambda one: _async_stream(one, now_ns, errors))
    else:
        backend = StampingBackend(inner, lambda one: _stream(one, now_ns, errors))
    keep_stamping(backend)
    pool._network_backend = backend  # type: ignore[union-attr]
    return True


def _stream(
    inner: NetworkStream, now_ns: Callable[[], int], errors: NetworkErrors
) -> NetworkStream:
    sock = inner.get_extra_info("socket")
    if not isinstance(sock, socket.socket) or isinstance(sock, ssl.SSLSocket):
        return StampedStream(inner, now_ns)
    stream = KernelStream(inner, now_ns, sock, Arrivals(sock, now_ns), errors)
    return cast(NetworkStream, stream)


def _async_stream(
    inner: AsyncNetworkStream, now_ns: Callable[[], int], errors: NetworkErrors
) -> AsyncNetworkStream:
    stamped = AsyncStampedStream(inner, now_ns)
    file = getattr(inner.get_extra_info("socket"), "fileno", None)
    if file is None or not in_asyncio_task():
        return stamped
    from phasemeter.transports.socket_reader import SocketReader

    # A descriptor of our own: an event loop reads no descriptor for others that it reads itself.
    try:
        sock = socket.socket(fileno=os.dup(file()))
    except OSError:  # there are no more
        return stamped
    stream = AsyncKernelStream(inner, now_ns, SocketReader(sock, now_ns), errors)
    return cast(AsyncNetworkStream, stream)
