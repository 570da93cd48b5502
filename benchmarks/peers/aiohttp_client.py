"""The plain aiohttp loop itself; runs in its own environment and imports nothing of this project."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import aiohttp
import uvloop

_clock_s = time.perf_counter  # noqa: TID251 - stands for what a user would write


async def _one_request(
    session: aiohttp.ClientSession, url: str, body: dict[str, object]
) -> list[float]:
    """Return start, then the time of each token event, in seconds."""
    times_s = [_clock_s()]
    pending = b""
    async with session.post(url, json=body) as response:
        response.raise_for_status()
        async for data in response.content.iter_any():
            pending += data
            *events, pending = pending.split(b"\n\n")
            for event in events:
                if event == b"data: [DONE]":
                    continue
                choices = json.loads(event.removeprefix(b"data: "))["choices"]
                if choices and choices[0]["text"]:
                    times_s.append(_clock_s())
    return times_s


async def _user(
    session: aiohttp.ClientSession,
    url: str,
    body: dict[str, object],
    tickets: Iterator[int],
    done: list[list[float]],
) -> None:
    for _ in tickets:
        done.append(await _one_request(session, url, body))  # noqa: PERF401


async def _run(options: argparse.Namespace) -> list[list[float]]:
    body = {
        "model": options.model,
        "prompt": " word" * options.prompt_tokens,
        "max_tokens": options.tokens,
        "stream": True,
        "ignore_eos": True,
    }
    done: list[list[float]] = []
    tickets = iter(range(options.requests))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        users = (_user(session, options.url, body, tickets, done) for _ in range(options.users))
        await asyncio.gather(*users)
    return done


def main() -> None:
    """Run the load and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--users", "--requests", "--tokens", "--prompt-tokens"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--url", "--model"):
        parser.add_argument(name, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    done = uvloop.run(_run(options))
    ttfts_ms = [(times_s[1] - times_s[0]) * 1000 for times_s in done]
    gaps_ms = [
        (later - earlier) * 1000 for times_s in done for earlier, later in pairwise(times_s[1:])
    ]
    document = {
        "requests": len(done),
        "ttft_p50_ms": statistics.median(ttfts_ms),
        "ttft_p99_ms": statistics.quantiles(ttfts_ms, n=100, method="inclusive")[98],
        "gap_p99_ms": statistics.quantiles(gaps_ms, n=100, method="inclusive")[98],
        "gap_max_ms": max(gaps_ms),
        "gaps_ms": gaps_ms,
    }
    options.out.write_text(json.dumps(document))


if __name__ == "__main__":
    main()
