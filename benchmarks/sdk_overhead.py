"""What tracing SDKs add to the openai client: CPU a chunk and a stream, and how long the loop is held.

Usage: python -m benchmarks.sdk_overhead [--quick] [--rounds N] [--tools NAME ...] [--json]

Each tool runs in an environment of its own, made at first use. Its client is connected to a server over
loopback that sends one event at a time, so that every tool does the same reads, as it would over a network;
the CPU time is that of the client's process, the kernel's work for it included. The processes take turns:
each round asks every one for a block of streams between two blocks of its bare client, in turning order.
Every few rounds all are started anew: how a process happens to lie in memory is worth 1 to 3 us a chunk
for as long as it lives. How long the loop is held is measured over a network in memory. Results: a table,
sdk_overhead.json, sdk_overhead.html and, unless --quick, docs/comparison.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.comparison_page import write_comparison
from benchmarks.machine import commit_of, describe, today
from benchmarks.overhead_page import write_overhead_page
from benchmarks.peers.environment import version_of
from benchmarks.peers.tool import UnavailableError
from benchmarks.sdk_chunk import hot_path_us_per_chunk
from benchmarks.sdk_costs import Cost, Hold, Overhead, Spread
from benchmarks.sdk_process import ROOT, SdkProcess, SdkProcessError, sdk_processes
from benchmarks.sdk_tools import SDK_TOOLS
from benchmarks.sdk_tools.tool import SdkTool
from benchmarks.server_process import piped_server
from benchmarks.table import UNKNOWN

FEW, MANY = 100, 2000
HOWS = ("sync", "async")
_WORKER = "benchmarks.sdk_worker"
_STREAMS = {FEW: 10, MANY: 1}
_HELD_STREAMS = {FEW: 9, MANY: 5}
_WARM_UP_STREAMS = 8
_GAP_S = 0.0007
"""Time between two events: more than a client takes for one, so that each comes in a read of its own."""
_ROUNDS, _QUICK_ROUNDS = 21, 3
_ROUNDS_A_START = 3
_MANY_EVERY = 6
"""Rounds to one in which the long streams are measured too: they take longest, and vary least."""


def main() -> int:
    """Measure and report; 0 unless no tool gave figures."""
    options = _options()
    console = Console(stderr=True)
    overhead = Overhead(today(), commit_of(ROOT), describe())
    tools = install(options.tools, options.folder, overhead, console)
    logs = options.folder / "logs"
    results_path = options.folder / "sdk_overhead.json"
    rounds = range(options.rounds)
    with piped_server("benchmarks.paced_server", str(_GAP_S)) as (port, _):
        for start in rounds[::_ROUNDS_A_START]:
            with sdk_processes(tools, HOWS, logs, module=_WORKER, arguments=[str(port)]) as started:
                some = rounds[start : start + _ROUNDS_A_START]
                alive = _warm_up(started, overhead, console)
                _rounds(alive, some, len(rounds), overhead, console)
    with sdk_processes(tools, ("async",), logs, module=_WORKER) as processes:
        _holds(_warm_up(processes, overhead, console), overhead, console)
    overhead.hot_path_us = hot_path_us_per_chunk()
    overhead.save(results_path)
    write_overhead_page(overhead, options.folder / "sdk_overhead.html")
    if not options.quick and len(options.tools) == len(SDK_TOOLS):
        write_comparison(options.folder, ROOT / "docs" / "comparison.md")
    if options.json:
        print(json.dumps(asdict(overhead)))
    else:
        show(overhead, Console(width=None if sys.stdout.isatty() else 150))
    console.print(f"written: {results_path}, {options.folder / 'sdk_overhead.html'}")
    return 0 if overhead.costs else 1


def install(
    names: list[str], folder: Path, overhead: Overhead, console: Console
) -> Mapping[SdkTool, Path]:
    """Have every tool that can be had; the others are noted with the reason."""
    tools: dict[SdkTool, Path] = {}
    for tool in SDK_TOOLS:
        if tool.name not in names:
            continue
        environment = folder / f"sdk-{tool.environment}"
        try:
            tool.install(environment)
        except UnavailableError as fault:
            overhead.unavailable[tool.name] = str(fault)
            console.print(f"{tool.name}: {fault}")
            continue
        tools[tool] = environment
        overhead.versions[tool.name] = version_of(environment, tool.package)
        overhead.notes[tool.name] = tool.note
        overhead.baselines[tool.name] = tool.baseline
        if tool.records_chunks:
            overhead.records_chunks.append(tool.name)
    return tools


def show(overhead: Overhead, console: Console) -> None:
    """Print the tables."""
    for how in HOWS:
        table = Table(
            "tool",
            f"added us a chunk\n{FEW} chunks",
            f"added us a chunk\n{MANY} chunks",
            "added us\na stream",
            "of the bare\nclient",
            title=f"CPU time added to the openai client, {how}",
        )
        for name in overhead.tools:
            few, many = (overhead.added_us(name, how, chunks) for chunks in (FEW, MANY))
            share = overhead.share_of_bare(name, how, FEW)
            split = overhead.fixed_us(name, how, FEW, MANY)
            table.add_row(
                name,
                spread_text(few),
                spread_text(many),
                UNKNOWN if split is None else f"{split[1]:,.0f}",
                UNKNOWN if share is None else f"{share:+.0%}",
            )
        console.print(table)
    table = Table(
        "tool", f"{FEW} chunks", f"{MANY} chunks", title="loop held at a stream's end, ms of CPU"
    )
    for name in overhead.baselines:
        held = [overhead.hold(name, chunks) for chunks in (FEW, MANY)]
        table.add_row(name, *(UNKNOWN if one is None else f"{one.end_ms:.2f}" for one in held))
    console.print(table)
    if overhead.hot_path_us is not None:
        console.print(f"hot path of phasemeter: {overhead.hot_path_us:.2f} us a chunk")
    for name, reason in overhead.unavailable.items():
        console.print(f"{name}: {reason}")


def spread_text(spread: Spread | None) -> str:
    """Return a median with its quartiles."""
    if spread is None:
        return UNKNOWN
    return f"{spread.median:.1f} ({spread.low:.1f} to {spread.high:.1f})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [tool.name for tool in SDK_TOOLS]
    parser.add_argument(
        "--quick", action="store_true", help=f"{_QUICK_ROUNDS} rounds; docs are left as they are"
    )
    parser.add_argument(
        "--rounds", type=int, help=f"by default {_ROUNDS}, or {_QUICK_ROUNDS} with --quick"
    )
    parser.add_argument("--tools", nargs="+", choices=names, default=names)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    options.rounds = options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)
    options.folder = options.folder.resolve()
    return options


def _warm_up(processes: list[SdkProcess], overhead: Overhead, console: Console) -> list[SdkProcess]:
    """Let every process import and run once; return those that work."""
    alive = []
    for process in processes:
        try:
            process.ask("cost", chunks=FEW, streams=_WARM_UP_STREAMS)
        except SdkProcessError as fault:
            overhead.unavailable[f"{process.tool.name}, {process.how}"] = str(fault)
            console.print(f"{process.tool.name}, {process.how}: {fault}")
            continue
        alive.append(process)
    return alive


def _rounds(
    processes: list[SdkProcess], numbers: range, of: int, overhead: Overhead, console: Console
) -> None:
    """Measure some rounds, each beginning with another process."""
    for number in numbers:
        turn = number % len(processes) if processes else 0
        _round(processes[turn:] + processes[:turn], number + 1, overhead, console)
        console.print(f"round {number + 1} of {of}")


def _round(processes: list[SdkProcess], number: int, overhead: Overhead, console: Console) -> None:
    """Measure each tool between two blocks of its bare client, so that the machine's drift is in both."""
    bare = {(one.tool.name, one.how): one for one in processes if _is_bare(one)}
    for chunks, streams in _STREAMS.items():
        if chunks == MANY and (number - 1) % _MANY_EVERY:
            continue
        for process in processes:
            baseline = bare.get((process.tool.baseline, process.how))
            if _is_bare(process) or baseline is None:
                continue
            try:
                before_us = _cpu_us(baseline, chunks, max(streams // 2, 1))
                cpu_us = _cpu_us(process, chunks, streams)
                after_us = _cpu_us(baseline, chunks, max(streams // 2, 1))
            except SdkProcessError as fault:
                console.print(f"{process.tool.name}, {process.how}: {fault}")
                continue
            bare_us = (before_us + after_us) / 2
            for name, took_us in ((process.tool.name, cpu_us), (baseline.tool.name, bare_us)):
                overhead.costs.append(Cost(name, process.how, chunks, number, took_us, bare_us))


def _is_bare(process: SdkProcess) -> bool:
    return process.tool.name == process.tool.baseline


def _cpu_us(process: SdkProcess, chunks: int, streams: int) -> float:
    """Return the CPU time of a stream, us."""
    cpu_ns: int = process.ask("cost", chunks=chunks, streams=streams)["cpu_ns"]
    return cpu_ns / 1000 / streams


def _holds(processes: list[SdkProcess], overhead: Overhead, console: Console) -> None:
    for chunks, streams in _HELD_STREAMS.items():
        for process in processes:
            try:
                held = process.ask("hold", chunks=chunks, streams=streams)
            except SdkProcessError as fault:
                console.print(f"{process.tool.name}: {fault}")
                continue
            times_ms = (
                held[name] / 1e6
                for name in ("end_cpu_ns", "end_cpu_max_ns", "end_wall_ns", "before_cpu_ns")
            )
            overhead.holds.append(Hold(process.tool.name, chunks, *times_ms))


if __name__ == "__main__":
    sys.exit(main())
