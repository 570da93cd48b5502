"""The listening socket, whose connections know when the kernel received their bytes.

The engine's loop reads its sockets only between pieces of computing, so the time at which it reads a
request can be tens of milliseconds after the request was there. A client is right to count that time to
the server, so the server's own truth must start where the client's clock does: at the arrival.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

_TIMESPEC = struct.Struct("@qq")
# Linux's number for a receive stamp in nanoseconds; the socket module does not name it.
_SO_TIMESTAMPNS = 35

Peer = tuple[str, int]


class StampingListener(socket.socket):
    """A TCP listener for asyncio; `arrivals_ns` is filled by the connections it accepts.

    Attributes:
        arrivals_ns: Monotonic time at which the last bytes read from each peer had arrived, by
            (address, port); the kernel's receive stamp on Linux, the time of the read elsewhere.
    """

    arrivals_ns: dict[Peer, int]

    def __init__(self, family: socket.AddressFamily) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self.arrivals_ns = {}

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        """Accept a connection that stamps what it reads."""
        plain, address = super().accept()
        return _StampingConnection(plain, self.arrivals_ns, (address[0], address[1])), address


class _StampingConnection(socket.socket):
    def __init__(self, plain: socket.socket, arrivals_ns: dict[Peer, int], peer: Peer) -> None:
        super().__init__(fileno=plain.detach())
        self._arrivals_ns = arrivals_ns
        self._peer = peer
        self._has_stamps = sys.platform == "linux"
        if self._has_stamps:
            self.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Read, and note when the bytes had arrived."""
        if not self._has_stamps:
            data = super().recv(bufsize, flags)
            self._arrivals_ns[self._peer] = time.monotonic_ns()
            return data
        data, ancillary, _, _ = self.recvmsg(bufsize, socket.CMSG_SPACE(_TIMESPEC.size), flags)
        now_ns = time.monotonic_ns()
        self._arrivals_ns[self._peer] = now_ns
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIMESPEC.unpack_from(content)
                ago_ns = time.time_ns() - (seconds * 1_000_000_000 + nanoseconds)
                self._arrivals_ns[self._peer] = now_ns - max(ago_ns, 0)
        return data

    def close(self) -> None:
        """Close, and forget the peer."""
        self._arrivals_ns.pop(self._peer, None)
        super().close()
