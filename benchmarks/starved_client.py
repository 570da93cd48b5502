"""Starves the load tester's core on purpose, with read stamps and with kernel stamps.

Usage: python -m benchmarks.starved_client [--busy N] [--folder FOLDER]

A paced server that logs when it really sent each token has a core of its own; `phasemeter load` shares
another one with processes that never wait. With stamps read in user space the run must call itself
invalid and exit 3; with kernel stamps it must be valid, and its gap p99 the server's. Exit status 0 when
both are so. Linux, two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_run import busy_process
from benchmarks.measured_process import only_on
from benchmarks.truth_figures import truth_figures
from phasemeter.testing.truth.launch import running_truth_server
from phasemeter.testing.truth.log import read_truth

GAP_ERROR_BUDGET_MS = 0.2
_PACING = "ttft_ms=100,gap_ms=25"
_USERS, _REQUESTS, _TOKENS = 8, 32, 60
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Starved:
    """What a starved run came to.

    Attributes:
        status: Exit status of `phasemeter load`.
        verdict: Its validity.
        reasons: Why, if not valid.
        stamp_source: Where its times came from.
        gap_p99_ms: As reported.
        gap_error_ms: The same minus what the server sent.
    """

    status: int
    verdict: str
    reasons: list[str]
    stamp_source: str
    gap_p99_ms: float
    gap_error_ms: float

    @property
    def is_right(self) -> bool:
        """True for a valid run whose gap p99 is within the budget."""
        within = abs(self.gap_error_ms) <= GAP_ERROR_BUDGET_MS
        return self.status == 0 and self.verdict == "valid" and within

    @property
    def is_refused(self) -> bool:
        """True for a run that calls itself invalid since its stamps are late."""
        late = any("user-space stamps" in reason for reason in self.reasons)
        return self.status == 3 and self.verdict == "invalid" and late


def starve(folder: Path, stamps: str, *, busy: int) -> Starved:
    """Run once beside so many busy processes on the client's core; files go below the folder."""
    server_cpu, client_cpu, *_ = sorted(os.sched_getaffinity(0))
    truth_path, run_path = folder / f"truth-{stamps}.jsonl", folder / stamps
    with ExitStack() as running:
        with only_on({server_cpu}):
            url = running.enter_context(running_truth_server(truth_path, _PACING))
        for _ in range(busy):
            running.enter_context(busy_process(client_cpu))
        with only_on({client_cpu}):
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "phasemeter", "load", url, "--stamps", stamps),
                    *("--users", str(_USERS), "--requests", str(_REQUESTS)),
                    *("--mix", f"one=100%:16/{_TOKENS}", "-o", str(run_path), "--json"),
                ],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
    document = json.loads(done.stdout)
    streams = [one for one in read_truth(truth_path) if one.tokens == _TOKENS]
    true = truth_figures(streams)
    gap_p99_ms = document["metrics"]["gap"]["p99"]
    return Starved(
        done.returncode,
        document["validity"]["verdict"],
        document["validity"]["reasons"],
        document["stamp_source"],
        gap_p99_ms,
        true.gap_p99_ms.distance_ms(gap_p99_ms),
    )


def main() -> int:
    """Starve both, print what each came to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--busy", type=int, default=3, help="busy processes on the client's core")
    parser.add_argument("--folder", type=Path, help="keep the runs there")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        print("starved_client: needs two cores", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="phasemeter-starved-") as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        outcomes = {name: starve(folder, name, busy=options.busy) for name in ("recv", "kernel")}
    for name, one in outcomes.items():
        print(
            f"--stamps {name}: exit {one.status}, {one.verdict}, gap p99 {one.gap_p99_ms:.3f} ms, "
            f"off by {one.gap_error_ms:+.3f} ms"
        )
        for reason in one.reasons:
            print(f"  - {reason}")
    return 0 if outcomes["recv"].is_refused and outcomes["kernel"].is_right else 1


if __name__ == "__main__":
    sys.exit(main())
