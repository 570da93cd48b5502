"""`phasemeter load`, measured as every other tool is: from outside, by its own report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.peers.tool import Load, Reported, count_gaps
from phasemeter.analysis.records import load_run
from phasemeter.core.timeline import Outcome


class PhasemeterLoad:
    """Runs in the environment that the comparison itself runs in."""

    name = "phasemeter"
    package = "phasemeter"
    note = "TTFT is its ttft_wire"

    def install(self, environment: Path) -> None:
        """Nothing to do: `make setup` did."""

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        del environment
        return [
            *(sys.executable, "-m", "phasemeter", "load", f"{load.url}/v1"),
            *("--model", load.model, "--api", "completions"),
            *("--users", str(load.users), "--requests", str(load.requests)),
            *("--mix", f"all=100%:{load.prompt_tokens}/{load.tokens}"),
            *("--output", str(out / "run"), "--json"),
        ]

    def read(self, out: Path) -> Reported:
        document = json.loads((out / "stdout.txt").read_text())
        metrics = document["metrics"]
        gaps_ms = [
            gap_ns / 1e6
            for timeline in load_run(out / "run").timelines
            if timeline.outcome is Outcome.OK
            for gap_ns, _ in timeline.gaps()
        ]
        gaps, zero_gaps = count_gaps(gaps_ms)
        return Reported(
            requests=document["requests"]["ok"],
            ttft_p50_ms=metrics["ttft_wire"]["p50"],
            ttft_p99_ms=metrics["ttft_wire"]["p99"],
            gap_p99_ms=metrics["gap"]["p99"],
            gap_max_ms=metrics["gap"]["max"],
            gaps=gaps,
            zero_gaps=zero_gaps,
            ttft_connecting_p50_ms=metrics["ttft"]["p50"],
            ttft_connecting_p99_ms=metrics["ttft"]["p99"],
        )
