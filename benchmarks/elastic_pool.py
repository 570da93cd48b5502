"""One prefill and one decode instance beside two elastic and two mixed ones, on a mix that shifts.

Usage: python -m benchmarks.elastic_pool [--repeats 2] [--half-s 12] [--users 24] [-o FOLDER]

Two cores of the lab engine. The load is a closed loop whose shape shifts: for the first half long prompts
with short answers, then short prompts with long answers. Topologies take turns (A B C, then C B A).
Printed for each half: requests per second (95 % bootstrap interval), TTFT and gap percentiles, failed
requests; of the elastic instances the share of their computing time that was a prefill turn, and how often
their role changed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

from phasemeter.analysis.bootstrapped import bootstrapped_rate
from phasemeter.analysis.records import Mark, RunRecords, load_run
from phasemeter.core.clock import NS_PER_S
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.experiments.arm_run import ArmRun, phases_of, seed_of, tags_of
from phasemeter.experiments.blocks import Stretch
from phasemeter.experiments.capacity import request_blocks
from phasemeter.experiments.carry_out import about_targets, carry_out_run
from phasemeter.lab.config import EngineConfig, Role
from phasemeter.lab.launch import start_engines
from phasemeter.load import run_folder
from phasemeter.load.plan import Plan, UserFlow
from phasemeter.load.preflight import find_target, warm_up
from phasemeter.load.target import Target
from phasemeter.load.workload import RequestClass
from phasemeter.metrics import TTFT

HALVES = {
    "prompt-heavy": RequestClass("prompt-heavy", 512, 8),
    "output-heavy": RequestClass("output-heavy", 16, 96),
}
SETTLE_S = 3.0
"""Left out at the start of each half: the shift itself, and what is still in flight of the other."""

DRAIN_S = 20.0


@contextmanager
def topologies() -> Iterator[dict[str, Target]]:
    """Two cores, three ways: an engine of each topology on each core; the idle ones sleep."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    roles: list[tuple[Role, Role]] = [
        ("prefill", "decode"),
        ("elastic", "elastic"),
        ("both", "both"),
    ]
    configs = [
        EngineConfig(role=role, cpu=core, exit_with_parent=True)
        for pair in roles
        for role, core in zip(pair, cores, strict=True)
    ]
    with start_engines(configs, timeout_s=120) as engines:
        urls = [f"{engine.url}/v1" for engine in engines]
        yield {
            "1P1D": target(urls[:1], urls[1:2]),
            "2 elastic": target(urls[2:4], urls[2:4]),
            "2 mixed": target(urls[4:], []),
        }


def target(urls: Sequence[str], decode_urls: Sequence[str]) -> Target:
    found = find_target(
        urls,
        decode_urls=decode_urls,
        topology="separated" if decode_urls else "replicated",
        model=None,
        api="completions",
        headers={},
        gpus=2,
    )
    warm_up(found, headers={})
    return found


def shifting_run(arm: str, repeat: int, users: int, half_s: float) -> ArmRun:
    tags = tags_of(arm, "shift", repeat)
    flows = tuple(
        UserFlow(name, (wanted,), users, number * half_s, (number + 1) * half_s, tags=tags)
        for number, (name, wanted) in enumerate(HALVES.items())
    )
    lengths = [
        phase for name in HALVES for phase in (("settle", SETTLE_S), (name, half_s - SETTLE_S))
    ]
    plan = Plan(flows, 2 * half_s, DRAIN_S, seed_of(1, repeat))
    return ArmRun(arm, "shift", repeat, plan, phases_of(lengths))


def steps_of(found: Target) -> list[list[dict[str, int | str]]]:
    """The steps that each engine computed."""
    every = []
    for endpoint in found.endpoints:
        url = f"http://{endpoint.authority}/steps"
        with urllib.request.urlopen(url, timeout=30) as answer:
            every.append([json.loads(line) for line in answer.read().splitlines()])
    return every


def measure(folder: Path, users: int, half_s: float, repeats: int) -> dict[str, list]:
    """Run everything; return the elastic engines' steps."""
    with topologies() as targets:
        run_folder.write_manifest(folder, "load", {"target": about_targets(targets)})
        writer = 0
        for repeat in range(1, repeats + 1):
            for arm in list(targets) if repeat % 2 else reversed(list(targets)):
                print(f"{arm}, repeat {repeat} ...", flush=True)
                carry_out_run(
                    folder,
                    shifting_run(arm, repeat, users, half_s),
                    targets[arm],
                    writer=writer,
                    headers={},
                    timeout_s=120,
                    on_progress=lambda *_: None,
                )
                writer += 1
        return {"2 elastic": steps_of(targets["2 elastic"])}


def row(run: RunRecords, arm: str, half: str, steps: Mapping[str, list]) -> str:
    marks = [mark for mark in run.marks if (mark.arm, mark.phase) == (arm, half)]
    mine = [t for t in run.timelines if (t.tags["arm"], t.tags["class"]) == (arm, half)]
    stretches = [Stretch(mark, [t for t in mine if is_ok(t, mark)]) for mark in marks]
    rate = bootstrapped_rate(request_blocks(stretches), seed=1)
    inside = [t for one in stretches for t in one.timelines if one.mark.start_ns <= t.started_ns]
    ttft = np.array([ns for t in inside for ns in TTFT.samples(t)]) / 1e6
    gaps = np.array([ns for t in inside for ns, _ in t.gaps()]) / 1e6
    failed = sum(t.outcome is not Outcome.OK for t in mine)
    ci95 = "" if rate is None or rate.ci95 is None else "[{:.1f}, {:.1f}]".format(*rate.ci95)
    figures = [
        f"{arm:>10} {half:>13} {rate.value if rate else float('nan'):8.2f} {ci95:>14}",
        *(f"{np.percentile(ttft, q):8.0f}" for q in (50, 99)),
        *(f"{np.percentile(gaps, q):8.1f}" for q in (50, 99, 100)),
        f"{failed:6}",
    ]
    if arm in steps:
        figures.append("   " + turns(steps[arm], marks))
    return " ".join(figures)


def is_ok(timeline: Timeline, mark: Mark) -> bool:
    return timeline.outcome is Outcome.OK and timeline.tags["repeat"] == str(mark.repeat)


def turns(engines: list, marks: Sequence[Mark]) -> str:
    """Share of the computing time in prefill turns, and role changes per second and engine."""
    prefill_ns = all_ns = switches = 0
    for steps in engines:
        inside = [
            step for step in steps if any(m.start_ns <= step["start_ns"] < m.end_ns for m in marks)
        ]
        for step in inside:
            length_ns = step["end_ns"] - step["start_ns"]
            all_ns += length_ns
            prefill_ns += length_ns * (step["role"] == "prefill")
        switches += sum(a["role"] != b["role"] for a, b in pairwise(inside))
    seconds = sum(m.end_ns - m.start_ns for m in marks) / NS_PER_S * len(engines)
    share = prefill_ns / all_ns if all_ns else float("nan")
    return f"prefill {share:4.0%} of the time, {switches / seconds:.1f} changes/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--half-s", type=float, default=12.0)
    parser.add_argument("--users", type=int, default=24)
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    folder = asked.output or Path(tempfile.mkdtemp(prefix="phasemeter-elastic-"))
    folder.mkdir(parents=True, exist_ok=True)
    steps = measure(folder, asked.users, asked.half_s, asked.repeats)
    run = load_run(folder)
    print(f"{'topology':>10} {'half':>13} {'req/s':>8} {'95 %':>14} ", end="")
    print(f"{'ttft50':>8} {'ttft99':>8} {'gap50':>8} {'gap99':>8} {'gapmax':>8} {'failed':>6}   ms")
    for half in HALVES:
        for arm in ("1P1D", "2 elastic", "2 mixed"):
            print(row(run, arm, half, steps))


if __name__ == "__main__":
    main()
