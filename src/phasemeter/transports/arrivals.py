"""When the bytes of a socket arrived: the kernel's receive stamps, put on the monotonic clock.

Where the system has them, arrival times are those of `SO_TIMESTAMPNS` through `recvmsg`: they do not
depend on when this process got to run. Elsewhere the clock is read as the socket read returns.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress

from phasemeter.core.clock import NS_PER_MS, NS_PER_S, now_ns, realtime_offset_ns
from phasemeter.core.timeline import StampSource

_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
# Linux's number on all architectures but parisc and sparc; the socket module does not name it.
_SO_TIMESTAMPNS = 35
_STEP_LIMIT_NS = NS_PER_MS
_BEGIN_TO_STAMP_LIMIT_NS = NS_PER_S // 2
HAS_KERNEL_STAMPS = sys.platform == "linux"


def hold_stamping() -> socket.socket | None:
    """Have the kernel stamp while the returned socket is open; None where it does not.

    Linux stamps arriving segments only while some socket asks for it. It begins a little after the
    first one did (0.8 ms idle, tens of ms under load were seen), and until then reads come without a
    stamp. This returns once they have one, or after half a second.
    """
    if not HAS_KERNEL_STAMPS:
        return None
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
    except OSError:  # no loopback here
        return None
    reader = Arrivals(near)
    deadline_ns = now_ns() + _BEGIN_TO_STAMP_LIMIT_NS
    with far:
        while reader.asks_kernel and now_ns() < deadline_ns:
            reader.begin()
            far.sendall(b"x")
            reader.receive(1)
            if reader.source == "kernel":
                return near
            select.select((), (), (), 0.001)
    near.close()
    return None


def keep_stamping(owner: object) -> None:
    """Have the kernel stamp while the owner lives, without waiting until it does."""
    if not HAS_KERNEL_STAMPS:
        return
    with suppress(OSError):
        keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        weakref.finalize(owner, keeper.close)
        keeper.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


class Arrivals:
    """Reads one connected or connecting socket. A kernel stamp is that of a read's last segment.

    Kernel stamps are wall-clock times. They are read with the offset between the two clocks at
    `begin`; a wall clock that was set since then is noticed and flagged.

    Args:
        sock: The socket; it stays the caller's.
        clock: Clock of the times. Kernel stamps are only used where it is the system's.
        kernel: Take the times from kernel stamps where there are any. Where not, these only tell the
            `read_lag_ns`: how far off the times are.

    Attributes:
        source: `kernel` where all times since `begin` are receive stamps, else `recv`.
        read_lag_ns: How long the last bytes read had waited since their arrival; None where that
            cannot be known (no kernel stamp).
        clock_stepped: The wall clock moved against the monotonic one since `begin`, so kernel
            stamps of this exchange are not to be trusted.
    """

    __slots__ = (
        "_floor_ns",
        "_kernel",
        "_now_ns",
        "_offset_ns",
        "_socket",
        "_source",
        "clock_stepped",
        "read_lag_ns",
        "source",
    )

    def __init__(
        self, sock: socket.socket, clock: Callable[[], int] = now_ns, *, kernel: bool = True
    ) -> None:
        self.source: StampSource = "recv"
        self.read_lag_ns: int | None = None
        self.clock_stepped = False
        self._socket = sock
        self._now_ns = clock
        self._offset_ns = 0
        # Bytes arrive in order, and none before the socket was there. They may arrive before the exchange
        # that reads them: TLS session tickets do.
        self._floor_ns = now_ns()
        self._kernel = False
        # The kernel stamps no bytes of Unix sockets.
        internet = sock.family in (socket.AF_INET, socket.AF_INET6)
        self._source: StampSource = "recv"
        if HAS_KERNEL_STAMPS and internet and clock is now_ns:
            try:
                sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            except OSError:  # a system call layer that does not know the option
                return
            self._source = self.source = "kernel" if kernel else "recv"
            self._kernel = True
            self._offset_ns = realtime_offset_ns()

    @property
    def asks_kernel(self) -> bool:
        """True where the kernel was asked to stamp this socket and took the option."""
        return self._kernel

    def begin(self) -> None:
        """Start an exchange: take the clock offset that its kernel stamps are read with."""
        self.clock_stepped = False
        if self._kernel:
            self.source = self._source
            self._offset_ns = realtime_offset_ns()

    def end(self) -> None:
        """End an exchange: see whether the wall clock was set during it."""
        if self._source == "kernel":
            moved_ns = abs(realtime_offset_ns() - self._offset_ns)
            self.clock_stepped = self.clock_stepped or moved_ns > _STEP_LIMIT_NS

    def receive(self, most_bytes: int) -> tuple[int, bytes]:
        """Read once.

        Returns:
            (arrival in ns, bytes); empty bytes mean the peer has closed.

        Raises:
            OSError: What the socket raises, BlockingIOError and TimeoutError among it.
        """
        # hot
        if not self._kernel:
            self.read_lag_ns = None
            data = self._socket.recv(most_bytes)
            return self._now_ns(), data
        self.read_lag_ns = None
        data, ancillary, _, _ = self._socket.recvmsg(most_bytes, _ANCILLARY_BYTES)
        read_ns = now_ns()
        for level, kind, stamp in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack_from(stamp)
                t_ns: int = seconds * NS_PER_S + nanoseconds - self._offset_ns
                if not self._floor_ns - _STEP_LIMIT_NS <= t_ns <= read_ns + _STEP_LIMIT_NS:
                    self.clock_stepped = self._source == "kernel"
                    return read_ns, data
                self._floor_ns = t_ns
                self.read_lag_ns = max(read_ns - t_ns, 0)
                return t_ns if self._source == "kernel" else read_ns, data
        if data:  # only the end of the stream carries none by nature
            self.source = "recv"
        return read_ns, data
