"""Looks for gaps that an application's pauses made wrong: random streams, random pauses, every way of timing.

Usage: python -m benchmarks.slow_consumers [--streams 250] [--seed 1] [--tolerance-ms 8]

A real server sends reads of one to five chunks at random times; the application sleeps, blocks, or blocks
and lets the event loop turn for a moment, on all chunks or on some. Each gap that is left in `gap` is
compared with when the server really sent. Exit status 1 if one is wrong, but for those seen only by their
pulls. For a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx2
import openai
import uvloop
from rich.console import Console
from rich.progress import track
from rich.table import Table

import phasemeter
from benchmarks.table import UNKNOWN
from phasemeter.core.clock import NS_PER_MS
from phasemeter.testing import (
    ScriptedRead,
    ScriptedReply,
    ScriptedServer,
    chat_chunk,
    chat_events,
)

PULL = "pull"
SURFACES = tuple(
    f"{how}, {stamps}"
    for how, kinds in (
        ("blocking", ("recv", "kernel", PULL)),
        ("asyncio", ("recv", "kernel", PULL)),
        ("uvloop", ("recv", "kernel")),
    )
    for stamps in kinds
)
_PAUSES_MS = ((0.5, 2.0), (5.0, 15.0), (20.0, 60.0))
_GAPS_MS = (1.5, 5.0, 10.0, 20.0, 20.0, 30.0, 60.0, 100.0)
_CHUNKS_A_READ = (1, 1, 1, 2, 3, 5)
REQUEST: dict[str, Any] = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "Say something."}],
    "stream": True,
}


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in one stream.

    Attributes:
        surface: How it was timed.
        style: What the application did.
        limited: Gaps that are consumer-limited.
        errors_ms: By how much each gap left in `gap` is too long; negative where it is too short.
    """

    surface: str
    style: str
    limited: int
    errors_ms: Sequence[float]

    def wrong_ms(self, tolerance_ms: float) -> list[float]:
        """Return the errors beyond a tolerance."""
        return [error for error in self.errors_ms if abs(error) > tolerance_ms]


class Application:
    """What is done between two chunks."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.style = rng.choice(("none", "sleep", "block", "block and turn", "mix"))
        self._share = rng.choice((0.3, 1.0))
        self._pauses_ms = rng.choice(_PAUSES_MS)

    def _next(self) -> tuple[str, float]:
        rng = self._rng
        if self.style == "none" or rng.random() > self._share:
            return "none", 0.0
        styles = ("sleep", "block", "block and turn")
        style = rng.choice(styles) if self.style == "mix" else self.style
        return style, rng.uniform(*self._pauses_ms) / 1000

    def pause(self) -> None:
        """Block."""
        time.sleep(self._next()[1])

    async def pause_async(self) -> None:
        """Sleep, or block with or without a turn of the loop."""
        style, pause_s = self._next()
        if style == "sleep":
            await asyncio.sleep(pause_s)
        elif style != "none":
            time.sleep(pause_s)  # noqa: ASYNC251  the fault that is looked for
        if style == "block and turn":
            await asyncio.sleep(self._rng.choice((0, 0.001)))


def script(rng: random.Random) -> tuple[list[ScriptedRead], list[int]]:
    """Return reads at random times, and for each token the index of its read."""
    t_ms = 20.0
    reads = [_read(t_ms, chat_chunk({"role": "assistant", "content": ""}))]
    of_tokens: list[int] = []
    t_ms += rng.uniform(10, 60)
    for _ in range(rng.randint(8, 20)):
        count = rng.choice(_CHUNKS_A_READ)
        of_tokens += [len(reads)] * count
        texts = (f" {len(of_tokens)}.{number}" for number in range(count))
        reads.append(_read(t_ms, *(chat_chunk({"content": text}) for text in texts)))
        t_ms += rng.choice(_GAPS_MS)
    reads += [_read(t_ms, data) for _, data in chat_events(kinds=("content",))[-3:]]
    return reads, of_tokens


def _read(t_ms: float, *chunks: str) -> ScriptedRead:
    return ScriptedRead(t_ms, tuple(f"data: {data}\n\n".encode() for data in chunks))


def stream_once(rng: random.Random, surface: str) -> Found:
    """Time one stream and compare each gap with what the server did."""
    reads, of_tokens = script(rng)
    application = Application(rng)
    timelines: list[phasemeter.Timeline] = []
    meter = phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)])
    how, _, stamps = surface.partition(", ")
    with ScriptedServer(ScriptedReply(reads)) as server:
        through_openai = rng.random() < 0.5
        if how == "blocking":
            _read_blocking(server.url, meter, stamps, application, through_openai=through_openai)
        else:
            run: Callable[[Any], object] = uvloop.run if how == "uvloop" else asyncio.run
            run(_read_async(server.url, meter, stamps, application, through_openai=through_openai))
    (timeline,) = timelines
    sent_ns = [server.served[0].sent_ns[read] for read in of_tokens]
    errors_ms = [
        ((later.t_ns - earlier.t_ns) - (later_sent_ns - earlier_sent_ns)) / NS_PER_MS
        for (earlier, later), (earlier_sent_ns, later_sent_ns) in zip(
            pairwise(timeline.events), pairwise(sent_ns), strict=True
        )
        if later.read != earlier.read and not later.consumer_limited
    ]
    return Found(surface, application.style, len(timeline.limited_gaps_ns()), errors_ms)


def _http_client(meter: phasemeter.Meter, stamps: str, *, is_async: bool) -> Any:  # noqa: ANN401
    if stamps == "kernel":
        return phasemeter.http_client(is_async=is_async, meter=meter)
    bare = httpx2.AsyncClient() if is_async else httpx2.Client()
    return bare if stamps == PULL else meter.wrap(bare)


def _read_blocking(
    url: str,
    meter: phasemeter.Meter,
    stamps: str,
    application: Application,
    *,
    through_openai: bool,
) -> None:
    with _http_client(meter, stamps, is_async=False) as http:
        if stamps == PULL or through_openai:
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", http_client=http)
            chunks: Iterable[object] = client.chat.completions.create(**REQUEST)
            for _ in meter.time_stream(chunks) if stamps == PULL else chunks:
                application.pause()
            return
        with http.stream("POST", f"{url}/v1/chat/completions", json=REQUEST) as response:
            for _ in response.iter_bytes():
                application.pause()


async def _read_async(
    url: str,
    meter: phasemeter.Meter,
    stamps: str,
    application: Application,
    *,
    through_openai: bool,
) -> None:
    async with _http_client(meter, stamps, is_async=True) as http:
        if stamps == PULL or through_openai:
            client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", http_client=http)
            chunks: AsyncIterable[object] = await client.chat.completions.create(**REQUEST)
            async for _ in meter.time_stream(chunks) if stamps == PULL else chunks:
                await application.pause_async()
            return
        async with http.stream("POST", f"{url}/v1/chat/completions", json=REQUEST) as response:
            async for _ in response.aiter_bytes():
                await application.pause_async()


def show(found: Sequence[Found], tolerance_ms: float, console: Console) -> None:
    """Print a row a surface."""
    table = Table(
        "timed by",
        "streams",
        "gaps",
        "consumer-limited",
        f"wrong by more\nthan {tolerance_ms:g} ms",
        "worst, ms",
        title="gaps of streams whose application takes its time",
    )
    for surface in SURFACES:
        own = [one for one in found if one.surface == surface]
        errors_ms = [error for one in own for error in one.errors_ms]
        table.add_row(
            surface,
            str(len(own)),
            f"{len(errors_ms):,}",
            f"{sum(one.limited for one in own):,}",
            str(sum(len(one.wrong_ms(tolerance_ms)) for one in own)),
            f"{max(map(abs, errors_ms)):.1f}" if errors_ms else UNKNOWN,
        )
    console.print(table)


def main() -> int:
    """Run the streams, say each that is wrong; 1 if a surface that sees the reads has one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance-ms", type=float, default=8.0)
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    found: list[Found] = []
    for number in track(range(options.streams), "streams", console=Console(stderr=True)):
        rng = random.Random(f"{options.seed} {number}")
        found.append(stream_once(rng, SURFACES[number % len(SURFACES)]))
        wrong_ms = found[-1].wrong_ms(options.tolerance_ms)
        if wrong_ms:
            told = ", ".join(f"{error:+.1f}" for error in wrong_ms)
            console.print(f"stream {number}, {found[-1].surface}, {found[-1].style}: {told} ms")
    show(found, options.tolerance_ms, console)
    wrong = (one for one in found if one.wrong_ms(options.tolerance_ms))
    return 1 if any(not one.surface.endswith(PULL) for one in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
