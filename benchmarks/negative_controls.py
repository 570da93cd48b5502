"""Controls of the interference experiment on the lab engine: verdicts that must come out every time.

Usage: python -m benchmarks.negative_controls [--repeats 20] [--controls NAME,NAME] [--output DIR]

one_token    prompts of a single token beside 4 streams: `none`.
full_slots   4 streams that outlast the injection on an engine with 4 slots: no prompt is let in while
             they decode, though each one's wait overlaps them: `invalid`.
one_slot     1 stream after the other on an engine with 1 slot: prompts are let in between streams, never
             beside one: `invalid`.
long_prompts prompts of 256 tokens beside 4 streams on an engine that reads prompts whole: `interference`.

The engine's own log tells for each repeat how many prompts were really read while a background stream
decoded. A line a repeat, a table at the end; exit status 1 when a verdict was false.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from phasemeter.analysis.finding import Factor, Finding
from phasemeter.analysis.injection import Spread
from phasemeter.analysis.records import RunRecords, load_run
from phasemeter.experiments.carry_out import carry_out
from phasemeter.experiments.interference import analyse
from phasemeter.experiments.interference_plan import arm_runs
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.lab.config import EngineConfig
from phasemeter.lab.launch import start_engines
from phasemeter.load import run_folder
from phasemeter.load.preflight import find_target, warm_up
from phasemeter.load.workload import RequestClass

_SETTINGS = InterferenceSettings(
    conditions=("inject",),
    background_users=(4,),
    background=RequestClass("background", 8, 320),
    inject_prompt_tokens=(128,),
    injections_per_s=4.0,
    alone_each=2,
    alone_s=5.0,
    prime_s=0.5,
    baseline_s=3.0,
    inject_s=4.0,
    recovery_s=0.5,
    drain_s=60.0,
    repeats=1,
)


@dataclass(frozen=True, slots=True)
class Control:
    """One control.

    Attributes:
        settings: What is run.
        slots: Slots of the engine.
        expected: The verdict that must come out.
    """

    settings: InterferenceSettings
    slots: int
    expected: str


CONTROLS = {
    "one_token": Control(replace(_SETTINGS, inject_prompt_tokens=(1,)), 16, "none"),
    "full_slots": Control(
        replace(_SETTINGS, background=RequestClass("background", 8, 2000)), 4, "invalid"
    ),
    "one_slot": Control(
        replace(
            _SETTINGS,
            background_users=(1,),
            background=RequestClass("background", 8, 100),
            inject_prompt_tokens=(64,),
        ),
        1,
        "invalid",
    ),
    "long_prompts": Control(
        replace(_SETTINGS, inject_prompt_tokens=(256,), injections_per_s=2.0, inject_s=5.0),
        16,
        "interference",
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one repeat gave.

    Attributes:
        finding: The finding.
        truly_overlapped: Prompts that were read while a background stream decoded, by the engine's log.
    """

    finding: Finding
    truly_overlapped: int

    @property
    def factor(self) -> Factor:
        """The longest gap beside an injection against undisturbed time."""
        return next(f for f in self.finding.factors if f.name.endswith("longest_exposed_gap"))

    @property
    def gaps_before_ms(self) -> Spread:
        """Gaps of the baseline, which tell how busy the machine was with other things."""
        return self.finding.cells[0].baseline_gap_ms

    def __str__(self) -> str:
        """All in one line."""
        factor, gaps = self.factor, self.gaps_before_ms
        told = "no factor"
        if factor.value is not None:
            told = f"factor {factor.value:.2f}"
            told += f" [{factor.ci95[0]:.2f}, {factor.ci95[1]:.2f}]" if factor.ci95 else ""
        return (
            f"{self.finding.verdict.kind}; {told}; {self.truly_overlapped} prompts read beside a stream; "
            f"gaps before p50 {gaps.p50 or math.nan:.1f}, p99 {gaps.p99 or math.nan:.1f} ms"
        )


def outcomes(control: Control, repeats: int, folder: Path) -> Iterator[Outcome]:
    """Start an engine, run a control on it a number of times, each with a seed of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    truth_path = folder / "truth.jsonl"
    config = EngineConfig(max_num_seqs=control.slots, truth_path=truth_path, exit_with_parent=True)
    with start_engines([config], timeout_s=120.0) as (engine,):
        target = find_target(
            [f"{engine.url}/v1"],
            topology="single",
            model=None,
            api="completions",
            headers={},
            gpus=1,
        )
        warm_up(target, headers={})
        for seed in range(1, repeats + 1):
            settings = replace(control.settings, seed=seed)
            run_path = run_folder.create(folder / f"run-{seed}", "interference")
            carry_out(
                run_path,
                settings,
                {"mixed": target},
                arm_runs(settings, ["mixed"]),
                headers={},
                timeout_s=120.0,
                on_progress=lambda run, elapsed_s, totals: None,
            )
            run = load_run(run_path)
            yield Outcome(analyse(run), truly_overlapped(run, truth_path))


def truly_overlapped(run: RunRecords, truth_path: Path) -> int:
    """Count injected prompts that were read in their phase while a background stream decoded."""
    lines = truth_path.read_text().splitlines()
    truth = {entry["request_id"]: entry for entry in map(json.loads, lines)}
    phase = next(mark for mark in run.marks if mark.phase == "inject")
    streams = [
        truth[one.request_id]["emit_ns"]
        for one in run.timelines
        if one.tags["condition"] == "inject" and one.tags["class"] == "background"
    ]
    overlapped = 0
    for one in run.timelines:
        if one.tags["condition"] != "inject" or one.tags["class"] != "injected":
            continue
        read = truth[one.request_id]
        scheduled_ns, first_token_ns = read["scheduled_ns"], read["first_token_ns"]
        if scheduled_ns is None or first_token_ns is None or first_token_ns >= phase.end_ns:
            continue
        overlapped += any(
            emits and emits[0] < scheduled_ns and emits[-1] > first_token_ns for emits in streams
        )
    return overlapped


def main() -> int:
    """Run the controls asked for; return 1 when a verdict was false."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--controls", default=",".join(CONTROLS))
    parser.add_argument("--output", type=Path, help="keep the run folders here")
    arguments = parser.parse_args()
    names = arguments.controls.split(",")
    if unknown := set(names).difference(CONTROLS):
        parser.error(f"--controls: {', '.join(unknown)}; accepted: {', '.join(CONTROLS)}")
    found: dict[str, list[Outcome]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="phasemeter-controls-") as scratch:
        for name in names:
            folder = (arguments.output or Path(scratch)) / name
            for number, one in enumerate(outcomes(CONTROLS[name], arguments.repeats, folder), 1):
                found[name].append(one)
                print(f"{name} {number}: {one}", flush=True)
                if one.finding.verdict.kind != CONTROLS[name].expected:
                    print(f"  {one.finding.verdict.text}", flush=True)
    print(
        f"\n{'control':<12} {'expected':<12} {'came out':<10} {'factor':<14} read beside a stream"
    )
    for name, each in found.items():
        print(row(name, each))
    return int(any(wrong(name, each) for name, each in found.items()))


def wrong(name: str, found: list[Outcome]) -> int:
    """Count verdicts that are not what a control expects."""
    return sum(one.finding.verdict.kind != CONTROLS[name].expected for one in found)


def row(name: str, found: list[Outcome]) -> str:
    """Return a control's line of the table."""
    factors = [one.factor.value for one in found if one.factor.value is not None]
    spread = f"{min(factors):.2f} to {max(factors):.2f}" if factors else "-"
    prompts = [one.truly_overlapped for one in found]
    right = f"{len(found) - wrong(name, found)} of {len(found)}"
    return (
        f"{name:<12} {CONTROLS[name].expected:<12} {right:<10} {spread:<14} "
        f"{min(prompts)} to {max(prompts)} prompts"
    )


if __name__ == "__main__":
    sys.exit(main())
