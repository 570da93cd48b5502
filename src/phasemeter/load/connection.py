"""A non-blocking connection, TCP or Unix, plain or TLS, that tells when its bytes arrived.

Arrival times are those of `transports.arrivals`: the kernel's receive stamps where the system has them.
TLS runs over memory buffers, since the ssl module's own sockets drop the stamps.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field

from phasemeter.core.clock import now_ns
from phasemeter.core.timeline import StampSource
from phasemeter.load.connecting import StampChoice
from phasemeter.transports.arrivals import Arrivals

_READ_BYTES = 65_536
_PROBE_S = 2.0


@dataclass(frozen=True, slots=True)
class Address:
    """A resolved address.

    Attributes:
        family: Address family.
        sockaddr: What `connect` takes.
        server_name: Host name for TLS, or None for plain TCP.
        tunnel: Request that has a proxy at that address open a tunnel to the server, or None.
    """

    family: socket.AddressFamily
    sockaddr: tuple[str, int] | tuple[str, int, int, int] | str
    server_name: str | None = None
    tunnel: bytes | None = field(default=None, repr=False)


class ProxyRefusedError(ConnectionError):
    """The proxy did not open a tunnel."""


def resolve(host: str, port: int, *, tls: bool) -> Address:
    """Resolve a host name, once for a run, to the first of its addresses that answers.

    A name such as localhost may have an IPv6 address at which nobody listens. Where none answers the
    first is returned, and the requests tell what is wrong with it.

    Raises:
        OSError: If the name cannot be resolved.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, sockaddr in found if len(found) > 1 else ():
        with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PROBE_S)
            probe.connect(sockaddr)
            return Address(family, sockaddr, host if tls else None)  # type: ignore[arg-type]
    family, _, _, _, sockaddr = found[0]
    return Address(family, sockaddr, host if tls else None)  # type: ignore[arg-type]


class Connection:
    """One connection. Errors of the socket come out of its methods as OSError.

    Attributes:
        arrivals: Reads its socket, and tells how late the last read was.
        connected_ns: When it became usable (TLS included); None until then.
        last_send_ns: Just before the last bytes were handed to the kernel. Not just after: the peer is
            woken by them and, on the same core, may run before the call returns.
        used: It has carried a response already.
    """

    def __init__(
        self, address: Address, tls: ssl.SSLContext | None, stamps: StampChoice = "auto"
    ) -> None:
        self.connected_ns: int | None = None
        self.last_send_ns = 0
        self.used = False
        self._tcp_connected = False
        self._out = bytearray()
        self._tunnel = address.tunnel
        self._tunnel_answer = bytearray()
        self._socket = socket.socket(address.family, socket.SOCK_STREAM)
        self._socket.settimeout(0)
        if address.family in (socket.AF_INET, socket.AF_INET6):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.arrivals = Arrivals(self._socket, kernel=stamps != "recv")
        self._tls: ssl.SSLObject | None = None
        if tls is not None:
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = tls.wrap_bio(
                self._incoming, self._outgoing, server_hostname=address.server_name
            )
        try:
            self._socket.connect(address.sockaddr)
        except OSError as fault:
            # Of a Unix socket EAGAIN says that the listener's queue is full, and nothing is under way.
            if fault.errno != errno.EINPROGRESS:
                self._socket.close()
                raise

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    @property
    def stamp_source(self) -> StampSource:
        """`kernel` where all that was read since `begin` had a receive stamp, else `recv`."""
        return self.arrivals.source

    @property
    def clock_stepped(self) -> bool:
        """The wall clock was set since `begin`: kernel stamps of this exchange are not to be trusted."""
        return self.arrivals.clock_stepped

    @property
    def wants_write(self) -> bool:
        """True while it waits to connect or has bytes that the kernel did not take yet."""
        return not self._tcp_connected or bool(self._out)

    def begin(self) -> None:
        """Start an exchange: take the clock offset that its kernel stamps are read with."""
        self.arrivals.begin()

    def end(self) -> None:
        """End an exchange: see whether the wall clock was stepped during it."""
        self.used = True
        self.arrivals.end()

    def write(self, data: bytes) -> None:
        """Take bytes to send, once connected; `flush` hands them to the kernel."""
        if self._tls is None:
            self._out += data
        else:
            self._tls.write(data)
            self._out += self._outgoing.read()

    def on_writable(self) -> None:
        """Go on connecting, or sending."""
        if not self._tcp_connected:
            error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, "connect failed")
            self._tcp_connected = True
            if self._tunnel is not None:
                self._out += self._tunnel
            else:
                self._become_usable()
        self.flush()

    def flush(self) -> bool:
        """Hand waiting bytes to the kernel; True when it has taken all."""
        while self._out:
            t_ns = now_ns()
            try:
                sent = self._socket.send(self._out)
            except BlockingIOError:
                return False
            self.last_send_ns = t_ns
            del self._out[:sent]
        return True

    def receive(self) -> tuple[int, bytes] | None:
        """Read once.

        Returns:
            (arrival in ns, bytes); empty bytes mean the peer has closed. None when nothing usable
            came (nothing there, or only TLS records without data).
        """
        try:
            t_ns, data = self.arrivals.receive(_READ_BYTES)
        except BlockingIOError:
            return None
        if self._tunnel is not None:
            self._read_tunnel_answer(data)
            self.flush()
            return None
        if self._tls is None or not data:
            return t_ns, data
        self._incoming.write(data)
        if self.connected_ns is None:
            self._shake_hands()
            self.flush()
            if self.connected_ns is None:
                return None
        return self._decrypt(t_ns)

    def close(self) -> None:
        """Close the socket; never raises."""
        self._socket.close()

    def _become_usable(self) -> None:
        if self._tls is None:
            self.connected_ns = now_ns()
        else:
            self._shake_hands()

    def _read_tunnel_answer(self, data: bytes) -> None:
        answer = self._tunnel_answer
        answer += data
        if not data or len(answer) > _READ_BYTES:
            msg = "the proxy gave no answer to CONNECT"
            raise ProxyRefusedError(msg)
        if b"\r\n\r\n" not in answer:
            return
        status = answer.split(b"\r\n", 1)[0].decode("latin-1")
        if not re.match(r"HTTP/1\.[01] 2\d\d\b", status):
            msg = f"the proxy refuses to connect: {status[:100]!r}"
            raise ProxyRefusedError(msg)
        # What is behind a tunnel says nothing before it is spoken to, so nothing follows the head.
        self._tunnel = None
        self._become_usable()

    def _shake_hands(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        else:
            self.connected_ns = now_ns()
        self._out += self._outgoing.read()

    def _decrypt(self, t_ns: int) -> tuple[int, bytes] | None:
        assert self._tls is not None
        parts: list[bytes] = []
        while True:
            try:
                part = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                part = b""
            if not part:
                return t_ns, b"".join(parts)
            parts.append(part)
        if self._outgoing.pending:  # the peer has changed keys and wants a word back
            self._out += self._outgoing.read()
            self.flush()
        return (t_ns, b"".join(parts)) if parts else None
