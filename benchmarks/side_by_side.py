"""Runs load testers side by side against a server that knows the truth.

Usage: python -m benchmarks.side_by_side [--quick] [--rounds N] [--busy-core] [--ladder] ...

Does its own set-up: each tool in an environment of its own, and a tokenizer laid out as a hub cache.
A tool that cannot be had is a row with the reason. Results: a table, results.json, side_by_side.html,
and, unless --quick, docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks.accuracy_page import accuracy_text
from benchmarks.bench_run import Bench, Size, busy_process
from benchmarks.hub_cache import write_hub_cache
from benchmarks.ladder import climb
from benchmarks.machine import describe, today
from benchmarks.page import write_page
from benchmarks.peers import FLOOR, FLOOR_RESTING, TOOLS, by_name
from benchmarks.peers.environment import version_of
from benchmarks.peers.tool import Tool, UnavailableError
from benchmarks.results import Comparison, Result
from benchmarks.table import show

ROOT = Path(__file__).parents[1]
FULL = Size(users=64, requests=256, tokens=100)
QUICK = Size(users=16, requests=32, tokens=50)
_PACING = "ttft_ms=200,gap_ms=20"
_TIMEOUT_S = 180.0


def main() -> int:
    """Run what was asked for; 0 unless no tool gave figures."""
    options = _options()
    console = Console(stderr=True)
    size = QUICK if options.quick else FULL
    bench = Bench(options.folder, _PACING, *_cores(split=options.cores == "split"), _TIMEOUT_S)
    comparison = Comparison(today(), describe(), _settings(size, options.cores))
    tools = _install(bench, options.tools, comparison, console)
    results_path = bench.folder / "results.json"

    def keep(into: list[Result]) -> Callable[[Result], None]:
        def add(result: Result) -> None:
            into.append(result)
            comparison.save(results_path)
            _say(console, result)

        return add

    _rounds(bench, tools, size, options.rounds, keep(comparison.rounds))
    if options.busy_core:
        _busy_rounds(options.folder, tools, size, options.rounds, keep(comparison.busy))
    if options.ladder:
        for tool in tools:
            if tool.name in (FLOOR, FLOOR_RESTING):
                continue  # they measure nothing that could be off
            comparison.rungs.append(climb(bench, tool, keep(comparison.ladder)))
    comparison.save(results_path)
    write_page(comparison, bench.folder / "side_by_side.html")
    if not options.quick and options.tools == [tool.name for tool in TOOLS]:
        (ROOT / "docs" / "accuracy.md").write_text(accuracy_text(comparison), encoding="utf-8")
    show(comparison, Console(width=None if sys.stdout.isatty() else 140))
    console.print(f"written: {results_path}, {bench.folder / 'side_by_side.html'}")
    return 0 if any(result.failure is None for result in comparison.rounds) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [tool.name for tool in TOOLS]
    parser.add_argument("--quick", action="store_true", help="a light load, one round")
    parser.add_argument("--rounds", type=int, help="by default 3, or 1 with --quick")
    parser.add_argument("--ladder", action="store_true", help="rising load, until gap p99 is off")
    parser.add_argument(
        "--busy-core", action="store_true", help="also beside a busy process on the client's core"
    )
    parser.add_argument(
        "--cores",
        choices=["shared", "split"],
        default="shared",
        help="split: the first core for the server alone, the others for the tool",
    )
    parser.add_argument("--tools", nargs="+", choices=names, default=names)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.folder = options.folder.resolve()
    return options


def _cores(*, split: bool) -> tuple[set[int] | None, set[int] | None]:
    cpus = sorted(os.sched_getaffinity(0))
    return ({cpus[0]}, set(cpus[1:])) if split and len(cpus) > 1 else (None, None)


def _settings(size: Size, cores: str) -> dict[str, object]:
    return {
        "users": size.users,
        "requests": size.requests,
        "tokens an answer": size.tokens,
        "pacing": _PACING,
        "cores": cores,
    }


def _install(
    bench: Bench, names: list[str], comparison: Comparison, console: Console
) -> list[Tool]:
    """Have every tool that can be had; the others go into the comparison with the reason."""
    write_hub_cache(bench.folder / "hub")
    tools = []
    for name in names:
        tool = by_name(name)
        assert tool is not None
        environment = bench.environment(tool)
        try:
            console.print(f"{name}: installing, if it is not there yet")
            tool.install(environment)
        except UnavailableError as fault:
            comparison.unavailable[name] = str(fault)
            console.print(f"{name}: {fault}")
            continue
        comparison.notes[name] = tool.note
        home = environment if environment.is_dir() else Path(sys.prefix)
        if tool.package:
            comparison.versions[name] = version_of(home, tool.package)
        tools.append(tool)
    return tools


def _rounds(
    bench: Bench, tools: list[Tool], size: Size, rounds: int, on_result: Callable[[Result], None]
) -> None:
    """Interleave the tools; each round starts with another one."""
    for number in range(rounds):
        turn = number % len(tools) if tools else 0
        for tool in tools[turn:] + tools[:turn]:
            on_result(bench.run(tool, size, number + 1))


def _busy_rounds(
    folder: Path,
    tools: list[Tool],
    size: Size,
    rounds: int,
    on_result: Callable[[Result], None],
) -> None:
    server_cpus, client_cpus = _cores(split=True)
    if client_cpus is None:
        print("--busy-core: needs two cores, skipped", file=sys.stderr)
        return
    busy_cpu = max(client_cpus)
    bench = Bench(folder, _PACING, server_cpus, {busy_cpu}, 2 * _TIMEOUT_S)
    with busy_process(busy_cpu):
        _rounds(bench, tools, size, rounds, on_result)


def _say(console: Console, result: Result) -> None:
    if result.failure is not None:
        console.print(f"{result.tool} x{result.users} round {result.round}: {result.failure}")
        return
    error_ms = result.error_ms("gap_p99_ms")
    said = "no gaps" if error_ms is None else f"gap p99 off by {error_ms:+.3f} ms"
    console.print(f"{result.tool} x{result.users} round {result.round}: {said}")


if __name__ == "__main__":
    sys.exit(main())
