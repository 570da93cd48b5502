"""Runs the self-check: a truth server in a process of its own, and the driver against it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phasemeter.analysis.health import health_of
from phasemeter.analysis.records import RunRecords, load_run
from phasemeter.analysis.shape import Health
from phasemeter.experiments.selfcheck import (
    RECV_STREAMS,
    STEPS,
    TOKENS_PER_S,
    ClockWatch,
    SentStream,
    Step,
    believed_events_per_s,
    better_of,
    check_plan,
    clock_resolution_ns,
    compare_steps,
)
from phasemeter.load import run_folder
from phasemeter.load.connecting import Connecting, StampChoice
from phasemeter.load.job import Progress
from phasemeter.load.launch import run_plan
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.testing.truth.launch import running_truth_server
from phasemeter.testing.truth.log import read_truth
from phasemeter.transports.arrivals import HAS_KERNEL_STAMPS

_TTFT_MS = 100

OnProgress = Callable[[float, str, Progress], None]


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What a self-check showed.

    Attributes:
        clock_resolution_ns: Smallest step of the clock.
        clock_steps: How often the wall clock was set meanwhile.
        clock_drift_us: How far it drifted from the monotonic clock meanwhile.
        host: Facts of the machine.
        health: Lags of the driver over all loads, its CPU, what else the machine did.
        steps: The loads with the best stamps there are, rising.
        recv_steps: The same with stamps taken in user space, where the others are the kernel's.
    """

    clock_resolution_ns: int
    clock_steps: int
    clock_drift_us: float | None
    host: dict[str, object]
    health: Health
    steps: tuple[Step, ...]
    recv_steps: tuple[Step, ...]

    def to_json(self) -> dict[str, object]:
        """Return the document of `phasemeter selfcheck --json`."""
        return {
            "believed_events_per_s": believed_events_per_s(self.steps),
            "clock": {
                "resolution_ns": self.clock_resolution_ns,
                "wall_clock_steps": self.clock_steps,
                "wall_clock_drift_us": self.clock_drift_us,
            },
            "host": self.host,
            "health": self.health,
            "steps": [step.to_json() for step in (*self.steps, *self.recv_steps)],
        }


def run_selfcheck(on_progress: OnProgress) -> SelfCheck:
    """Measure at rising load, about 15 s.

    Args:
        on_progress: Called with the done share, a label and running totals.

    Raises:
        PhasemeterError: If the truth server does not start or a load worker fails.
    """
    watch = ClockWatch()
    with tempfile.TemporaryDirectory(prefix="phasemeter-selfcheck-") as name:
        measuring = _Measuring(Path(name), watch, on_progress)
        run, steps = measuring.run("auto", STEPS)
        recv_steps: list[Step] = []
        if HAS_KERNEL_STAMPS:
            _, recv_steps = measuring.run("recv", (RECV_STREAMS,))
        # A machine that does other things too has hiccups; what fails twice has failed.
        doubtful = [step.streams for step in steps if not step.is_believed]
        if doubtful:
            _, again = measuring.run("auto", doubtful)
            steps = better_of(steps, again)
    return SelfCheck(
        clock_resolution_ns(),
        watch.steps,
        watch.drift_us,
        run_folder.host_facts(),
        health_of(run),
        tuple(steps),
        tuple(recv_steps),
    )


class _Measuring:
    """Runs steps, each time against a fresh truth server."""

    def __init__(self, folder: Path, watch: ClockWatch, on_progress: OnProgress) -> None:
        self._folder = folder
        self._watch = watch
        self._on_progress = on_progress
        self._runs = 0

    def run(self, stamps: StampChoice, steps: Sequence[int]) -> tuple[RunRecords, list[Step]]:
        """Return the run and what its steps showed."""
        self._runs += 1
        folder = self._folder / str(self._runs)
        folder.mkdir()
        plan = check_plan(steps)
        label = f"stamps {stamps}, {steps[0]} to {steps[-1]} streams"

        def show(elapsed_s: float, totals: Progress) -> None:
            self._watch.look()
            self._on_progress(min(max(elapsed_s, 0.0) / plan.duration_s, 1.0), label, totals)

        truth_path = folder / "truth.jsonl"
        pacing = f"ttft_ms={_TTFT_MS},gap_ms={1_000 / TOKENS_PER_S:g}"
        with running_truth_server(truth_path, pacing) as url:
            endpoint, _ = parse_endpoint(url)
            style = RequestStyle("completions", "truth", prompt_ids=True)
            target = Target("single", (endpoint,), style, connecting=Connecting(stamps=stamps))
            run_folder.write_manifest(folder, "load", {})
            run_plan(folder, plan, target, headers={}, on_progress=show)
        truth = {
            one.request_id: SentStream(one.received_ns, one.emit_ns)
            for one in read_truth(truth_path)
            if one.request_id is not None and one.emit_ns
        }
        run = load_run(folder)
        return run, compare_steps(run, truth)
