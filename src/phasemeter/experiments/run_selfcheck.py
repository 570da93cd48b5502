"""Runs the self-check: a truth server in a process of its own, and the driver against it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from phasemeter.analysis.records import load_run
from phasemeter.experiments.selfcheck import (
    STEPS,
    TOKENS_PER_S,
    SentStream,
    Step,
    clock_resolution_ns,
    compare,
    step_plan,
)
from phasemeter.load import run_folder
from phasemeter.load.job import Progress
from phasemeter.load.launch import run_plan
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.testing.truth.launch import running_truth_server
from phasemeter.testing.truth.log import read_truth

_TTFT_MS = 100

OnProgress = Callable[[float, str, Progress], None]


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What a self-check showed.

    Attributes:
        clock_resolution_ns: Smallest step of the clock.
        host: Facts of the machine.
        steps: The loads, rising; a load at which no stream was measured is left out.
    """

    clock_resolution_ns: int
    host: dict[str, object]
    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, object]:
        """Return the document of `phasemeter selfcheck --json`."""
        return {
            "clock_resolution_ns": self.clock_resolution_ns,
            "host": self.host,
            "steps": [step.to_json() for step in self.steps],
        }


def run_selfcheck(on_progress: OnProgress) -> SelfCheck:
    """Measure at rising load.

    Args:
        on_progress: Called with the done share, a label and running totals.

    Raises:
        PhasemeterError: If the truth server does not start or a load worker fails.
    """
    steps: list[Step] = []
    for number, streams in enumerate(STEPS):

        def show(elapsed_s: float, totals: Progress, number: int = number) -> None:
            plan_s = step_plan(STEPS[number]).duration_s + 1
            share = (number + min(elapsed_s / plan_s, 1)) / len(STEPS)
            on_progress(share, f"{STEPS[number]} streams", totals)

        with tempfile.TemporaryDirectory(prefix="phasemeter-selfcheck-") as name:
            step = _measure(Path(name), streams, show)
        if step is not None:
            steps.append(step)
    return SelfCheck(clock_resolution_ns(), run_folder.host_facts(), tuple(steps))


def _measure(
    folder: Path, streams: int, on_progress: Callable[[float, Progress], None]
) -> Step | None:
    truth_path = folder / "truth.jsonl"
    pacing = f"ttft_ms={_TTFT_MS},gap_ms={1_000 / TOKENS_PER_S:g}"
    with running_truth_server(truth_path, pacing) as url:
        endpoint, _ = parse_endpoint(url)
        target = Target(
            "single", (endpoint,), RequestStyle("completions", "truth", prompt_ids=True)
        )
        run_folder.write_manifest(folder, "load", {})
        run_plan(folder, step_plan(streams), target, headers={}, on_progress=on_progress)
    truth = {
        one.request_id: SentStream(one.received_ns, one.emit_ns)
        for one in read_truth(truth_path)
        if one.request_id is not None and one.emit_ns
    }
    return compare(streams, load_run(folder), truth)
