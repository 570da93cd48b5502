"""The floor: what waiting, reading with kernel stamps and keeping the bytes costs, without a use for them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import process_time

from benchmarks.peers.tool import Load, Reported, count_gaps
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.record import record_line
from phasemeter.dialects import by_name

_TIMES = 100


class EpollFloor:
    """Not a product: bounds what a client can take for a token.

    Args:
        name: Short name.
        rest_ms: Pause after each turn, so that more is read in the next.
    """

    package = ""

    def __init__(self, name: str, rest_ms: int) -> None:
        self.name = name
        self.note = "the floor: epoll and recvmsg, bytes kept, nothing parsed"
        if rest_ms:
            self.note += f"; pauses {rest_ms} ms after each turn"
        self._rest_ms = rest_ms

    def install(self, environment: Path) -> None:
        """Nothing to do: it takes the standard library only."""

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        del environment
        script = Path(__file__).with_name("floor_client.py")
        return [
            *(sys.executable, str(script), "--rest-ms", str(self._rest_ms)),
            *load.arguments(out),
        ]

    def read(self, out: Path) -> Reported:
        document = json.loads((out / "result.json").read_text())
        gaps, zero_gaps = count_gaps(document["gaps_ms"])
        return Reported(
            requests=document["requests"],
            gap_p99_ms=document["gap_p99_ms"],
            gap_max_ms=document["gap_max_ms"],
            gaps=gaps,
            zero_gaps=zero_gaps,
            parse_us=document["parse_us"],
            reading_us=_reading_us(
                [(t_ns, data.encode("latin-1")) for t_ns, data in document["a_response"]]
            ),
        )


def _reading_us(reads: list[tuple[int, bytes]]) -> float:
    """Return the CPU time that phasemeter's own reading of these bytes takes, us a token event.

    HTTP, framing, decoding and the line of the record; the best of many times, so without a cold start.
    """
    from phasemeter.load.http1 import (
        ResponseReader,  # the load extra: not every tool's place has it
    )

    best_s = float("inf")
    events = 1
    for _ in range(_TIMES):
        begun_s = process_time()
        meter = StreamMeter(
            by_name("openai.completions"),
            request_id="floor",
            model=None,
            started_ns=0,
            stamp_source="kernel",
        )
        reader = ResponseReader(_Body(meter))
        for t_ns, data in reads:
            reader.feed(t_ns, data)
        timeline = meter.finish(reads[-1][0], StreamEnd.EOF)
        record_line(timeline)
        best_s = min(best_s, process_time() - begun_s)
        events = max(len(timeline.events), 1)
    return best_s * 1e6 / events


class _Body:
    def __init__(self, meter: StreamMeter) -> None:
        self.on_headers = meter.on_headers
        self.on_body = meter.on_read
