"""One client connection of the truth server: stamped reads, whole writes, requests one after another."""

from __future__ import annotations

import socket
import struct
import sys
import time
from contextlib import suppress

from phasemeter.core.clock import now_ns
from phasemeter.testing.truth.http_requests import Request, take_request

_READ_BYTES = 262_144
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
# Linux's number for a receive stamp in nanoseconds; the socket module does not name it.
_SO_TIMESTAMPNS = 35
_NO_LINGER = struct.pack("@ii", 1, 0)


class Connection:
    """A non-blocking connection.

    Attributes:
        descriptor: Its number; known after closing too.
        received_ns: Monotonic time at which the bytes of the last read had arrived.
        open: It can still be written to.
        busy: It is being answered; further requests wait in the buffer.
        closes: It is closed after the answer, because the request said so.
    """

    def __init__(self, plain: socket.socket) -> None:
        self.descriptor = plain.fileno()
        self.received_ns = 0
        self.open = True
        self.busy = False
        self.closes = False
        self._finishing = False
        self._socket = plain
        self._in = bytearray()
        self._out = bytearray()
        plain.settimeout(0)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux":
            plain.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def read(self) -> None:
        """Read all that is there; at the end of the stream or an error the connection closes."""
        while self.open:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data, ancillary = b"", []
            if not data:
                self.close()
                return
            self.received_ns = _arrival_ns(ancillary)
            self._in += data

    def next_request(self) -> Request | None:
        """Take the next whole request out of the buffer, unless one is being answered.

        Raises:
            BadRequestError: If the bytes are no HTTP request.
        """
        return None if self.busy or not self._in else take_request(self._in)

    def send(self, data: bytes) -> bool:
        """Hand bytes to the kernel in one call; what it does not take follows when it can.

        Returns:
            False if some bytes have to wait (the peer does not read), or the connection is closed.
        """
        if not self.open:
            return False
        if self._out:
            self._out += data
            return False
        try:
            taken = self._socket.send(data)
        except BlockingIOError:
            taken = 0
        except OSError:
            self.close()
            return False
        self._out += data[taken:]
        return taken == len(data)

    def finish(self) -> None:
        """Close as soon as all bytes are with the kernel."""
        self._finishing = True
        if not self._out:
            self.close()

    def flush(self) -> None:
        """Send what waits."""
        if not self._out:
            return
        waiting, self._out = bytes(self._out), bytearray()
        if self.send(waiting) and self._finishing:
            self.close()

    def reset(self) -> None:
        """Close so that the peer sees a reset."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.close()

    def close(self) -> None:
        """Close; never raises."""
        self.open = False
        self._socket.close()


def _arrival_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    t_ns = now_ns()
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = _TIMESPEC.unpack_from(content)
            wall_ns = time.time_ns()  # noqa: TID251 - the kernel stamps on the wall clock
            age_ns: int = wall_ns - seconds * 1_000_000_000 - nanoseconds
            return t_ns - max(age_ns, 0)
    return t_ns
