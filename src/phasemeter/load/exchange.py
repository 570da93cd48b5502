"""One HTTP exchange on one connection: send the request, receive the response, say how it ended."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Protocol

from phasemeter.core.clock import now_ns
from phasemeter.core.meter import StreamEnd
from phasemeter.load.connection import Connection, ProxyRefusedError
from phasemeter.load.http1 import HttpError, ResponseReader, ResponseReceiver


class ExchangeOwner(ResponseReceiver, Protocol):
    """Takes what an exchange brings; `on_end` comes exactly once and last."""

    def on_connected(self, t_ns: int) -> None:
        """A new connection became usable for this exchange."""
        ...

    def on_sent(self, t_ns: int) -> None:
        """The request's last byte went to the kernel."""
        ...

    def on_end(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        """The response is whole, or cannot become so."""
        ...


class Exchange:
    """Drives a connection through one request and its response.

    Attributes:
        connection: The connection; it belongs to the exchange until `on_end`.
        reads: Socket reads that brought bytes.
        reusable: After the end: the connection can carry another request.
        done: The exchange has ended.
        fault: The socket error that ended it, or None.
        watched_events: What the owner of the selector watches its connection for.

    Args:
        connection: A connection, connected or connecting.
        request: The request's bytes.
        owner: Takes what the exchange brings.
        released: Called once when the exchange needs the connection no more.
        retry: Called instead of the owner's `on_end` when the connection was lost before a byte of
            the response came: the peer of a reused connection may have closed it meanwhile, so the
            request is sent once more on a new one.
    """

    def __init__(
        self,
        connection: Connection,
        request: bytes,
        owner: ExchangeOwner,
        released: Callable[[Exchange], None],
        retry: Callable[[], None] | None = None,
    ) -> None:
        self.connection = connection
        self.reads = 0
        self.reusable = False
        self.done = False
        self.fault: OSError | None = None
        self.watched_events = 0
        self._request: bytes | None = request
        self._owner = owner
        self._released = released
        self._retry = retry
        self._reader = ResponseReader(owner)
        self._sent = False
        connection.begin()

    def advance(self) -> None:
        """Connect and send as far as possible now."""
        try:
            self.connection.on_writable()
            self._send()
        except OSError as fault:
            self._fail(fault)

    def on_readable(self) -> None:
        """Read once and pass on what came."""
        try:
            got = self.connection.receive()
            if self._request is not None:
                self._send()  # a TLS handshake may have ended with this read
        except OSError as fault:
            self._fail(fault)
            return
        if got is None:
            return
        t_ns, data = got
        if not data:
            if self._reader.closed_cleanly():
                self.finish(t_ns, StreamEnd.EOF, None)
            else:
                self.finish(t_ns, StreamEnd.LOST, "connection_closed")
            return
        self.reads += 1
        try:
            self._reader.feed(t_ns, data)
        except HttpError:
            self.finish(t_ns, StreamEnd.LOST, "not_http")
            return
        if self._reader.complete:
            self.reusable = self._reader.keeps_connection
            self.finish(t_ns, StreamEnd.EOF, None)

    def finish(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        """End the exchange; later calls do nothing."""
        if self.done:
            return
        self.done = True
        self.connection.end()
        self._reader.end()
        self._released(self)
        if end is StreamEnd.LOST and self._retry is not None and not self._reader.started:
            self._retry()
        else:
            self._owner.on_end(t_ns, end, error_type)

    def _send(self) -> None:
        if self._request is not None and self.connection.connected_ns is not None:
            if not self.connection.used:
                self._owner.on_connected(self.connection.connected_ns)
            self.connection.write(self._request)
            self._request = None
        if self._request is None and not self._sent and self.connection.flush():
            self._sent = True
            self._owner.on_sent(self.connection.last_send_ns)

    def _fail(self, fault: OSError) -> None:
        self.fault = fault
        self.finish(now_ns(), StreamEnd.LOST, error_name(fault))


_ERROR_NAMES: Mapping[type[OSError], str] = {
    ProxyRefusedError: "proxy_refused",
    ConnectionRefusedError: "connection_refused",
    BlockingIOError: "listen_queue_full",
    ConnectionResetError: "connection_reset",
    BrokenPipeError: "connection_reset",
    TimeoutError: "timeout",
}


def error_name(fault: OSError) -> str:
    """Return a low-cardinality name for a socket error."""
    if fault.errno in (errno.EMFILE, errno.ENFILE):
        return "too_many_open_files"
    for kind, name in _ERROR_NAMES.items():
        if isinstance(fault, kind):
            return name
    # SO_ERROR gives a bare OSError; the errno's own class has the name.
    specific = type(OSError(fault.errno, "")) if fault.errno else type(fault)
    if specific is not type(fault) and specific in _ERROR_NAMES:
        return _ERROR_NAMES[specific]
    return "tls_error" if "ssl" in type(fault).__module__ else "connection_error"
