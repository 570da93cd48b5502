"""What stamping adds to a read of an asyncio connection.

Run: python benchmarks/sdk_reads.py. First in memory, where each read takes one turn of the loop: what the
code costs for a consumer that keeps up. Then over loopback connections, one thread for both ends, where a
read follows a write of the other end: what the streams cost with all that is under them.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

import httpcore2

from phasemeter.core.clock import now_ns
from phasemeter.transports.kernel import install_kernel_stamps
from phasemeter.transports.stamping import AsyncStampedStream, install

READS = 2_000
MEMORY_READS = 10_000
ROUNDS = 15
CHUNK = b"x" * 250


class Stream(Protocol):
    """What is used of a network stream."""

    async def read(self, max_bytes: int, timeout: float | None) -> bytes: ...
    async def aclose(self) -> None: ...


class Memory:
    """A network stream whose reads take one turn of the loop."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await asyncio.sleep(0)
        return CHUNK

    async def aclose(self) -> None: ...

    def get_extra_info(self, info: str) -> object:
        return False


class Transport:
    """Has a pool, as the transports of httpx2 do."""

    def __init__(self) -> None:
        self._pool = httpcore2.AsyncConnectionPool()


async def read_us(
    stream: Stream, peer: socket.socket, pause: Callable[[], Awaitable[None]]
) -> float:
    """Return the time of a write on the other end and the read that it completes, us a read."""
    started_ns = now_ns()
    for _ in range(READS):
        peer.send(CHUNK)
        await stream.read(65_536, 5.0)
        await pause()
    return (now_ns() - started_ns) / READS / 1000


async def at_once() -> None:
    """Ask for more without letting the loop turn."""


async def a_turn_later() -> None:
    """Let the loop turn once between two reads, so that reading ahead begins each time."""
    await asyncio.sleep(0)


async def streams(listener: socket.socket) -> dict[str, tuple[Stream, socket.socket]]:
    """Connect one stream of each kind; the bodies of the last two are open."""
    made = {}
    for name in ("bare", "stamped", "read_ahead", "kernel"):
        transport = Transport()
        if name in ("stamped", "read_ahead"):
            install(transport, now_ns, is_async=True)
        elif name == "kernel":
            install_kernel_stamps(transport, now_ns, is_async=True)
        backend = transport._pool._network_backend
        stream = await backend.connect_tcp("127.0.0.1", listener.getsockname()[1])
        peer, _ = listener.accept()
        if name in ("read_ahead", "kernel"):
            stream.open_body()
        made[name] = (stream, peer)
    return made


async def memory_us(stream: Stream) -> float:
    """Return the time of a read, us."""
    started_ns = now_ns()
    for _ in range(MEMORY_READS):
        await stream.read(65_536, 5.0)
    return (now_ns() - started_ns) / MEMORY_READS / 1000


async def measure_memory() -> dict[str, float]:
    """Return the added times, us a read: between the best rounds."""
    read_ahead = AsyncStampedStream(Memory(), now_ns)
    read_ahead.open_body()
    made = {"bare": Memory(), "stamped": AsyncStampedStream(Memory(), now_ns)}
    made["read_ahead"] = read_ahead
    best = dict.fromkeys(made, float("inf"))
    for _ in range(ROUNDS):
        for name, stream in made.items():
            best[name] = min(best[name], await memory_us(stream))
    read_ahead.close_body()
    return {
        "memory_bare_us_per_read": best["bare"],
        "memory_stamped_added_us_per_read": best["stamped"] - best["bare"],
        "memory_read_ahead_added_us_per_read": best["read_ahead"] - best["bare"],
    }


async def measure() -> dict[str, float]:
    """Return the added times, us a read: between the best rounds."""
    figures: dict[str, float] = {}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = await streams(listener)
        for label, pause in (("at_once", at_once), ("a_turn_later", a_turn_later)):
            rounds: dict[str, list[float]] = {name: [] for name in made}
            for _ in range(ROUNDS):
                for name, (stream, peer) in made.items():
                    rounds[name].append(await read_us(stream, peer, pause))
            best = {name: min(times) for name, times in rounds.items()}
            figures[f"bare_us_per_read_{label}"] = best["bare"]
            for name in ("stamped", "read_ahead", "kernel"):
                figures[f"{name}_added_us_per_read_{label}"] = best[name] - best["bare"]
        for stream, peer in made.values():
            if hasattr(stream, "close_body"):
                stream.close_body()
            await stream.aclose()
            peer.close()
    return figures


def main() -> None:
    """Print the figures as JSON."""
    figures = asyncio.run(measure_memory()) | asyncio.run(measure())
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}, indent=1))


if __name__ == "__main__":
    main()
