"""Receives bytes as the load driver does: exchange, HTTP parser, meter, dialect; without a socket."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from phasemeter.core.decoding import Decoder, Dialect
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.repeats import Varying
from phasemeter.core.timeline import StampSource, Timeline
from phasemeter.load.exchange import Exchange

Ending = Literal["close", "reset", "cancel"]
Read = tuple[int, bytes]


def receive(dialect: Dialect, reads: Sequence[Read], ending: Ending) -> Timeline:
    """Return the timeline of a response that came in these reads.

    Args:
        dialect: Its dialect.
        reads: (time, bytes) of each read; times rise.
        ending: What happens after the last read to a response that is not whole by then.
    """
    meter = StreamMeter(
        dialect, request_id="fuzz", model=None, started_ns=-1, stamp_source="kernel"
    )
    owner = _Owner(meter)
    connection = _Connection(reads, ending)
    exchange = Exchange(connection, b"", owner, lambda exchange: None)  # type: ignore[arg-type]
    exchange.advance()
    while not exchange.done and not connection.is_over:
        exchange.on_readable()
    exchange.finish(connection.last_ns, StreamEnd.CLOSED, None)
    assert owner.end is not None
    return meter.finish(*owner.end)


class WithoutRepeats:
    """A dialect whose every event is parsed: what the short way for repeated events must agree with."""

    varying = Varying()

    def __init__(self, dialect: Dialect) -> None:
        self.name = dialect.name
        self.operation = dialect.operation
        self.path_suffixes = dialect.path_suffixes
        self.json_lines = dialect.json_lines
        self._dialect = dialect

    def decoder(self) -> Decoder:
        return self._dialect.decoder()


class _Owner:
    """What a flight's stream does."""

    def __init__(self, meter: StreamMeter) -> None:
        self._meter = meter
        self.on_body = meter.on_read
        self.end: tuple[int, StreamEnd, str | None] | None = None

    def on_connected(self, t_ns: int) -> None:
        self._meter.connected_ns = t_ns

    def on_sent(self, t_ns: int) -> None:
        self._meter.sent_ns = t_ns

    def on_headers(self, t_ns: int, status: int, headers: Mapping[str, str]) -> None:
        self._meter.on_headers(t_ns, status, headers)

    def on_end(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        assert self.end is None, "ended twice"
        self.end = (t_ns, end, error_type)


class _Connection:
    """Stands for a connected socket with these reads to come."""

    stamp_source: StampSource = "kernel"
    clock_stepped = False
    wants_write = False
    used = False
    connected_ns = last_send_ns = -1

    def __init__(self, reads: Sequence[Read], ending: Ending) -> None:
        self._reads: Iterator[Read] = iter(reads)
        self._ending = ending
        self.last_ns = 0
        self.is_over = False

    def receive(self) -> Read:
        read = next(self._reads, None)
        if read is not None:
            self.last_ns = read[0]
            return read
        self.is_over = True
        self.last_ns += 1
        if self._ending == "reset":
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        return self.last_ns, b""

    def begin(self) -> None: ...

    def end(self) -> None: ...

    def on_writable(self) -> None: ...

    def write(self, data: bytes) -> None: ...

    def flush(self) -> bool:
        return True
