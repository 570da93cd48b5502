"""Counts false alarms: detections and doubts about runs in which nothing is wrong.

Usage: python -m benchmarks.false_alarms [--runs 20] [--seconds 8] [--keep FOLDER]

Half of the runs are against the truth server, half against a lab engine, closed and open loop in turn,
with loads that both can carry. Every detection, and every reason of a validity that is not `valid`, is an
alarm. Exit status 1 if there is any. Linux.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from phasemeter.analysis.records import load_run
from phasemeter.analysis.summary import summarise
from phasemeter.lab.config import EngineConfig
from phasemeter.lab.launch import start_engines
from phasemeter.load.plan import ArrivalFlow, Flow, Plan, UserFlow
from phasemeter.load.preflight import find_target
from phasemeter.load.run import run_load
from phasemeter.load.workload import RequestClass
from phasemeter.testing.truth.launch import running_truth_server

_PACING = "ttft_ms=100,gap_ms=20"
_MIX = (RequestClass("short", 32, 24, 0.75), RequestClass("long", 256, 24, 0.25))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One clean run.

    Attributes:
        server: `truth` or `lab`.
        flow: `users` or `arrivals`.
        ok: Requests that ended ok.
        alarms: What it was accused of; empty as it should be.
    """

    server: str
    flow: str
    ok: int
    alarms: list[str]


def flows(server: str, seconds: float) -> tuple[Flow, ...]:
    """Return loads that a server carries with ease; one core computes the lab engine's answers."""
    users, rate_per_s = (16, 20.0) if server == "truth" else (2, 3.0)
    return (
        UserFlow("users", _MIX, users, 0.0, seconds),
        ArrivalFlow("arrivals", _MIX, rate_per_s, "poisson", 0.0, seconds),
    )


def clean_run(folder: Path, server: str, url: str, flow: Flow, seed: int) -> Outcome:
    """Run once and return what it was accused of."""
    folder.mkdir(parents=True)
    target = find_target([url], topology="single", model=None, api=None, headers={})
    run_load(
        folder,
        Plan((flow,), flow.stop_s, 20.0, seed),
        target,
        workers=1,
        timeout_s=60,
        headers={},
        on_progress=lambda elapsed_s, totals: None,
    )
    summary = summarise(load_run(folder))
    detections = [f"{one['kind']}: {one['text']}" for one in summary["detections"]]
    validity = summary["validity"]
    doubts = [f"{validity['verdict']}: {reason}" for reason in validity["reasons"]]
    return Outcome(server, flow.name, summary["requests"]["ok"], doubts + detections)


@contextmanager
def servers(folder: Path) -> Iterator[dict[str, str]]:
    """Run both servers; gives their URLs."""
    with (
        running_truth_server(folder / "truth.jsonl", _PACING) as truth,
        start_engines([EngineConfig(exit_with_parent=True)]) as (engine,),
    ):
        yield {"truth": truth, "lab": engine.url}


def clean_runs(folder: Path, runs: int, seconds: float) -> Iterator[Outcome]:
    """Yield the outcome of each run."""
    with servers(folder) as urls:
        kinds = [(server, flow) for server in urls for flow in flows(server, seconds)]
        for number, (server, flow) in enumerate(islice(cycle(kinds), runs)):
            yield clean_run(folder / f"run-{number}", server, urls[server], flow, number + 1)


def main() -> int:
    """Run them, say each alarm; 1 if there was any."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8.0, help="load of each run")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs there")
    options = parser.parse_args()
    done: Counter[str] = Counter()
    alarms = 0
    with tempfile.TemporaryDirectory(prefix="phasemeter-false-alarms-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for outcome in clean_runs(folder, options.runs, options.seconds):
            done[f"{outcome.server} {outcome.flow}"] += 1
            alarms += bool(outcome.alarms)
            print(
                f"{outcome.server:6} {outcome.flow:9} {outcome.ok:4} ok", *outcome.alarms, sep="  "
            )
    told = ", ".join(f"{number} {kind}" for kind, number in done.items())
    print(f"{sum(done.values())} clean runs ({told}), {alarms} with an alarm")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
