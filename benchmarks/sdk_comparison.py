"""What tracing SDKs report of the same streams: first token, gaps, every exit, types, surfaces.

Usage: python -m benchmarks.sdk_comparison [--tools NAME ...] [--json]

A scripted server in this process sends the same answers to every tool, which runs in an environment and
a process of its own, made at first use. Results: sdk_comparison.json, and docs/comparison.md unless tools
are chosen.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.comparison_page import comparison_text, write_comparison
from benchmarks.machine import commit_of, today
from benchmarks.peers.environment import version_of
from benchmarks.peers.tool import UnavailableError
from benchmarks.sdk_facts import Seen
from benchmarks.sdk_observed import Observed
from benchmarks.sdk_process import ROOT, SdkProcess, SdkProcessError
from benchmarks.sdk_scenarios import HOWS, SCENARIOS, Scenario
from benchmarks.sdk_tools import FULL, sdk_tool
from benchmarks.sdk_tools.tool import SdkTool
from phasemeter.core.clock import PROCESS_ANCHOR
from phasemeter.testing import ScriptedServer

_WORKER = "benchmarks.sdk_scenario_worker"
_TIMEOUT_S = 30.0


def main() -> int:
    """Observe and report; 0 unless no tool could be observed."""
    options = _options()
    console = Console(stderr=True)
    seen = Seen(today(), commit_of(ROOT))
    for tool, environment in _install(options.tools, options.folder, seen, console).items():
        console.print(tool.name)
        # They mostly wait, so the blocking and the async client go side by side.
        with ThreadPoolExecutor(len(HOWS)) as threads:
            list(
                threads.map(
                    partial(_observe, tool, environment, options.folder, seen, console), HOWS
                )
            )
    results_path = options.folder / "sdk_comparison.json"
    seen.save(results_path)
    if set(FULL) <= set(options.tools):
        write_comparison(options.folder, ROOT / "docs" / "comparison.md")
    print(json.dumps(asdict(seen)) if options.json else comparison_text(seen, None))
    console.print(f"written: {results_path}")
    return 0 if seen.tools else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", nargs="+", choices=FULL, default=list(FULL))
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    return options


def _install(
    names: list[str], folder: Path, seen: Seen, console: Console
) -> Mapping[SdkTool, Path]:
    """Have the tools and the bare clients that they are compared with."""
    wanted = dict.fromkeys([sdk_tool(name).baseline for name in names] + names)
    tools: dict[SdkTool, Path] = {}
    for tool in map(sdk_tool, wanted):
        environment = folder / f"sdk-{tool.environment}"
        try:
            tool.install(environment)
        except UnavailableError as fault:
            seen.unavailable[tool.name] = str(fault)
            console.print(f"{tool.name}: {fault}")
            continue
        tools[tool] = environment
        seen.versions[tool.name] = version_of(environment, tool.package)
        seen.notes[tool.name] = tool.note
        seen.baselines[tool.name] = tool.baseline
    return tools


def _observe(
    tool: SdkTool, environment: Path, folder: Path, seen: Seen, console: Console, how: str
) -> None:
    log = folder / "logs" / f"scenarios-{tool.name.replace(', ', '-')}-{how}.txt"
    with SdkProcess(tool, how, environment, log, module=_WORKER) as process:
        for scenario in SCENARIOS:
            if how not in scenario.hows:
                continue
            try:
                observed = _scenario(process, scenario)
            except SdkProcessError as fault:
                where = f"{tool.name}, {how}, {scenario.name}"
                seen.unavailable[where] = str(fault)
                console.print(f"{where}: {fault}")
                return
            seen.add(tool.name, how, scenario.name, observed)


def _scenario(process: SdkProcess, scenario: Scenario) -> Observed:
    replies = [scenario.reply, *([] if scenario.then is None else [scenario.then])]
    with ScriptedServer(*replies) as server:
        answer = process.ask(
            "scenario",
            timeout_s=_TIMEOUT_S,
            name=scenario.action,
            url=f"{server.url}/v1",
            options=dict(scenario.options),
            follow_up=scenario.then is not None,
        )
        sent_ns = server.served[0].sent_ns
    sent_last_unix_ns = PROCESS_ANCHOR.unix_ns_at(sent_ns[-1]) if sent_ns else None
    return replace(Observed.of(answer), sent_last_unix_ns=sent_last_unix_ns)


if __name__ == "__main__":
    sys.exit(main())
