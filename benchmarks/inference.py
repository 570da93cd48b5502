"""What is told of a server from outside, beside what the server knows: steps, chunks, budgets, queue times.

Usage: python -m benchmarks.inference [--budgets 64,128,256,512] [--policies chunked,mixed] [--users 3,10]

Starts lab engines, which know the truth, one after the other (about 40 s each).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phasemeter.analysis.calibration import calibration_of
from phasemeter.analysis.engine_steps import EngineSteps, steps_of
from phasemeter.analysis.queue_estimate import QueueBounds, queue_bounds
from phasemeter.analysis.records import RunRecords, load_run
from phasemeter.analysis.steps import Refusal
from phasemeter.lab.config import EngineConfig, Policy
from phasemeter.lab.launch import start_engines
from phasemeter.load import run_folder
from phasemeter.load.plan import Plan, TimedFlow, UserFlow
from phasemeter.load.preflight import find_target
from phasemeter.load.run import run_load
from phasemeter.load.workload import RequestClass


def inject(
    url: str,
    folder: Path,
    lengths: Sequence[int],
    *,
    streams: int = 4,
    stream_tokens: int = 900,
    prompts: int = 9,
    every_s: float = 1.3,
) -> RunRecords:
    """Stream all the time and send prompts of some lengths in turn, far apart."""
    target = find_target([url], topology="single", model=None, api=None, headers={})
    end_s = 2 + prompts * every_s
    mix = (RequestClass("streams", 8, stream_tokens),)
    at = tuple(
        (
            2 + k * every_s + 0.037 * (k % 7),
            RequestClass("injected", lengths[k % len(lengths)], 1),
        )
        for k in range(prompts)
    )
    flows = (UserFlow("streams", mix, streams, 0.0, end_s), TimedFlow("injected", at))
    run_load(
        run_folder.create(folder, "load"),
        Plan(flows, end_s, 0.0, 1),
        target,
        workers=1,
        timeout_s=120,
        headers={},
        on_progress=lambda elapsed_s, sums: None,
    )
    return load_run(folder)


@dataclass(frozen=True)
class StepErrors:
    """Steps as told beside the engine's own.

    Attributes:
        told: How many were told.
        true: How many there were between the first and the last of them.
        median_ms: Median duration as told.
        true_median_ms: Median time between the ends of the same steps.
        errors: Relative error of each duration.
        chunks: (as told, true) of each prompt whose chunks were counted, by its length.
    """

    told: int
    true: int
    median_ms: float
    true_median_ms: float
    errors: np.ndarray
    chunks: Mapping[int, list[tuple[int, int]]]


def compare_steps(
    engine: EngineSteps, steps: Sequence[Mapping[str, int]], requests: Mapping[str, dict]
) -> StepErrors:
    """Compare with a lab engine's `/steps` and `/truth` (by request)."""
    series = engine.series
    assert not isinstance(series, Refusal), series
    ends_ns = np.array([step["end_ns"] for step in steps])
    which = np.searchsorted(ends_ns, series.ends_ns) - 1
    known = np.flatnonzero(series.durations_ns > 0)
    true_ns = np.diff(ends_ns, prepend=ends_ns[0])[which[known]]
    durations_ns = series.durations_ns[known]
    chunks: dict[int, list[tuple[int, int]]] = {}
    for count in engine.counts:
        true = len(requests[count.request_id]["prefill_steps"])
        chunks.setdefault(count.prompt_tokens, []).append((count.chunks, true))
    return StepErrors(
        told=series.ends_ns.size,
        true=int(which[-1] - which[0] + 1),
        median_ms=float(np.median(durations_ns)) / 1e6,
        true_median_ms=float(np.median(true_ns)) / 1e6,
        errors=np.abs(durations_ns - true_ns) / np.maximum(true_ns, 1),
        chunks=dict(sorted(chunks.items())),
    )


def lab_truth(url: str) -> tuple[list[dict], dict[str, dict]]:
    """Return a lab engine's steps, and its requests by identifier."""
    steps, requests = (
        [json.loads(line) for line in urllib.request.urlopen(url + path, timeout=30)]
        for path in ("/steps", "/truth")
    )
    return steps, {one["request_id"]: one for one in requests}


def bounds_of(folder: Path) -> list[QueueBounds]:
    """Return the queue bounds of a calibrated run."""
    records = load_run(folder)
    calibration = calibration_of(records.manifest)
    assert calibration is not None
    return queue_bounds(steps_of(records), calibration)


def queue_line(bounds: Sequence[QueueBounds]) -> str:
    """Return how the bounds compare with what the server says."""
    told = [one for one in bounds if one.told_ns is not None]
    within = sum(bool(one.holds_told) for one in told)
    widths = [(one.upper_ns - one.lower_ns) / one.ttft_ns for one in told]
    queue_ms, ttft_ms = (
        float(np.median([getattr(one, name) for one in told])) / 1e6
        for name in ("told_ns", "ttft_ns")
    )
    return (
        f"{within} of {len(told)} within; queue p50 {queue_ms:,.1f} of ttft {ttft_ms:,.1f} ms; "
        f"median width {np.median(widths):.0%} of ttft"
    )


def _steps(budget: int, folder: Path) -> None:
    config = EngineConfig(
        policy="chunked", token_budget=budget, max_model_len=1024, exit_with_parent=True
    )
    with start_engines([config], timeout_s=120) as (engine,):
        records = inject(engine.url, folder, (150, 420, 700))
        steps, requests = lab_truth(engine.url)
    (told,) = steps_of(records)
    found = compare_steps(told, steps, requests)
    pairs = [pair for counted in found.chunks.values() for pair in counted]
    p50, p90, p99 = np.quantile(found.errors, (0.5, 0.9, 0.99))
    print(
        f"chunked {budget}: {found.told} steps told of {found.true}; median {found.median_ms:.2f} ms, "
        f"true {found.true_median_ms:.2f}; error of a step p50 {p50:.2%}, p90 {p90:.2%}, p99 {p99:.1%}; "
        f"chunks exact {sum(a == b for a, b in pairs)} of {len(pairs)} "
        f"{ {tokens: one[0][1] for tokens, one in found.chunks.items()} }; budget {told.budget}",
        flush=True,
    )


def _queues(policy: Policy, users: Sequence[int], folder: Path) -> None:
    config = EngineConfig(policy=policy, max_num_seqs=4, max_model_len=1024, exit_with_parent=True)
    idle = folder / "idle"
    with start_engines([config], timeout_s=120) as (engine,):
        _phasemeter(
            *("calibrate", engine.url, "-o", idle, "--streams", "1,2,4"),
            *("--prompt-tokens", "32,64,128,256,400,600"),
        )
        for number in users:
            run = folder / f"users-{number}"
            _phasemeter(
                *("load", engine.url, "-o", run, "--users", number, "--duration", "20s"),
                *("--mix", "short=70%:60/40,long=30%:400/20", "--calibrated-by", idle),
            )
            print(f"{policy}, {number} users: {queue_line(bounds_of(run))}", flush=True)


def _phasemeter(*arguments: object) -> None:
    command = [sys.executable, "-m", "phasemeter", *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budgets", default="64,128,256,512")
    parser.add_argument("--policies", default="chunked,mixed")
    parser.add_argument("--users", default="3,10")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for budget in filter(None, given.budgets.split(",")):
            _steps(int(budget), Path(folder, f"steps-{budget}"))
        for policy in filter(None, given.policies.split(",")):
            users = [int(number) for number in given.users.split(",")]
            _queues(policy, users, Path(folder, policy))


if __name__ == "__main__":
    main()
