"""Climbs in steps of streams until a tool's gap p99 is off by more than the limit."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench_run import Bench, Size
from benchmarks.peers.tool import Tool
from benchmarks.results import Result, Rung

USERS = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
LIMIT_MS = 1.0
NO_GAPS = "reports no gaps"
_TRIES = 2
_TOKENS = 100
_GAP_MS = 20.0


def climb(bench: Bench, tool: Tool, on_result: Callable[[Result], None]) -> Rung:
    """Run a tool at rising loads; a rung has failed when both of its tries have.

    Args:
        bench: Where and how; its pacing is the one of the rounds.
        tool: The tool.
        on_result: Called with each run.
    """
    highest: int | None = None
    for users in USERS:
        size = Size(users, 2 * users, _TOKENS)
        why = ""
        for number in range(1, _TRIES + 1):
            result = bench.run(tool, size, number)
            on_result(result)
            why = verdict(result)
            if why == NO_GAPS:
                return Rung(tool.name, None, None, why)
            if not why:
                break
        if why:
            return Rung(tool.name, highest, users, why)
        highest = users
    return Rung(tool.name, highest, None, "the ladder ended")


def verdict(result: Result) -> str:
    """Return why a run is past the limit, or an empty text."""
    if result.failure is not None:
        return result.failure
    error_ms = result.error_ms("gap_p99_ms")
    if result.truth is None or error_ms is None:
        return NO_GAPS
    if abs(error_ms) > LIMIT_MS:
        return f"gap p99 off by {error_ms:+.2f} ms"
    if result.truth.late_p99_ms > _GAP_MS:
        return f"the server itself was {result.truth.late_p99_ms:.0f} ms late"
    return ""
