"""A plain aiohttp client, the stack under most load testers: what a simple loop of one's own gives."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.peers.environment import ensure
from benchmarks.peers.tool import Load, Reported, count_gaps


class AiohttpLoop:
    """Not a product: the yardstick of the budget for CPU time a token."""

    name = "aiohttp-loop"
    package = "aiohttp"
    note = "the yardstick: 60 lines on aiohttp and uvloop"

    def install(self, environment: Path) -> None:
        ensure(environment, ["aiohttp==3.14.5", "uvloop>=0.21"])

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        script = Path(__file__).with_name("aiohttp_client.py")
        return [
            *(str(environment / "bin" / "python"), str(script)),
            *load.arguments(out),
        ]

    def read(self, out: Path) -> Reported:
        document = json.loads((out / "result.json").read_text())
        gaps, zero_gaps = count_gaps(document["gaps_ms"])
        return Reported(
            requests=document["requests"],
            ttft_p50_ms=document["ttft_p50_ms"],
            ttft_p99_ms=document["ttft_p99_ms"],
            gap_p99_ms=document["gap_p99_ms"],
            gap_max_ms=document["gap_max_ms"],
            gaps=gaps,
            zero_gaps=zero_gaps,
        )
