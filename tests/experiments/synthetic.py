"""Interference runs made by hand: streams that decode every 10 ms, prompts that stop them."""

from __future__ import annotations

from pathlib import Path

from phasemeter.analysis.records import Mark, RunRecords
from phasemeter.core.record import Issued
from phasemeter.core.timeline import Timeline
from tests.analysis.run_factory import MS, make_timeline

PHASE_MS = 4_000.0
GAP_MS = 10.0


def background(
    arm: str,
    repeat: int,
    start_ms: float,
    *,
    stall_every_ms: float | None,
    stall_ms: float,
    slow_after: int = 0,
) -> list[Timeline]:
    """Four streams over two phases: baseline, then inject with a stall at each injection.

    After a stall come `slow_after` gaps of four times the usual length.
    """
    timelines = []
    for stream in range(4):
        t_ms, gaps_ms, slow = start_ms, [], 0
        inject_ms = start_ms + PHASE_MS
        next_stall_ms = inject_ms + 200 if stall_every_ms else float("inf")
        while t_ms < start_ms + 2 * PHASE_MS:
            # 1 us a stream apart, so that a percentile is no tie over all gaps
            gap_ms = (GAP_MS + stream * 0.001) * (4 if slow > 0 else 1)
            slow -= 1
            if t_ms >= next_stall_ms:
                gap_ms, slow = stall_ms, slow_after
                next_stall_ms += stall_every_ms or 0
            gaps_ms.append(gap_ms)
            t_ms += gap_ms
        timelines.append(
            make_timeline(
                f"{arm}{repeat}-b{stream}",
                start_ms=start_ms - 20,
                first_ms=start_ms,
                gaps_ms=gaps_ms,
                tags=tags(arm, "inject", repeat, "background"),
            )
        )
    return timelines


def injected(
    arm: str, repeat: int, start_ms: float, every_ms: float, ttft_ms: float
) -> list[Timeline]:
    inject_ms = start_ms + PHASE_MS
    number = int((PHASE_MS - 400) / every_ms)
    return [
        make_timeline(
            f"{arm}{repeat}-i{k}",
            start_ms=inject_ms + 195 + k * every_ms,
            first_ms=inject_ms + 195 + k * every_ms + ttft_ms,
            gaps_ms=(GAP_MS,) * 3,
            tags=tags(arm, "inject", repeat, "injected") | {"prompt_tokens": "512"},
        )
        for k in range(number)
    ]


def prompts_alone(arm: str, repeat: int, start_ms: float, ttft_ms: float) -> list[Timeline]:
    return [
        make_timeline(
            f"{arm}{repeat}-a{k}",
            start_ms=start_ms + k * 500,
            first_ms=start_ms + k * 500 + ttft_ms,
            gaps_ms=(GAP_MS,) * 3,
            tags=tags(arm, "prompts_alone", repeat, "injected") | {"prompt_tokens": "512"},
        )
        for k in range(3)
    ]


def mix(
    arm: str, condition: str, repeat: int, start_ms: float, name: str, ttft_ms: float
) -> list[Timeline]:
    return [
        make_timeline(
            f"{arm}{condition}{repeat}-{name}-{k}",
            start_ms=start_ms + k * 100,
            first_ms=start_ms + k * 100 + ttft_ms + k % 5,
            gaps_ms=(GAP_MS,) * 10,
            tags=tags(arm, condition, repeat, name),
        )
        for k in range(30)
    ]


def tags(arm: str, condition: str, repeat: int, name: str) -> dict[str, str]:
    return {"arm": arm, "condition": condition, "repeat": str(repeat), "class": name}


def make_run(
    *,
    arms: tuple[str, ...] = ("mixed", "separated"),
    stall_ms: dict[str, float] | None = None,
    stall_every_ms: float = 200.0,
    short_ttft_ms: dict[str, float] | None = None,
    overlapping: bool = True,
    gpus: dict[str, int] | None = None,
    slow_after: int = 0,
    alone_ttft_ms: float | None = None,
) -> RunRecords:
    """A whole run of two repeats on `mixed` and `separated`, or on more topologies.

    Args:
        arms: The topologies, in order.
        stall_ms: Length of each background stall, by arm.
        stall_every_ms: Time between injected prompts.
        short_ttft_ms: TTFT of short requests in the mix, by arm.
        overlapping: Injected prompts come while the background runs; else long after it.
        gpus: GPU counts of the manifest.
        slow_after: Slow gaps after each stall.
        alone_ttft_ms: TTFT of injected prompts that were sent alone, None where none were.
    """
    stall_ms = stall_ms or {"mixed": 100.0, "separated": 10.0}
    short_ttft_ms = short_ttft_ms or {"mixed": 50.0, "separated": 150.0}
    timelines: list[Timeline] = []
    marks: list[Mark] = []
    start_ms = 1_000.0
    for repeat in (1, 2):
        for arm in arms:
            timelines += background(
                arm,
                repeat,
                start_ms,
                stall_every_ms=stall_every_ms,
                stall_ms=stall_ms[arm],
                slow_after=slow_after,
            )
            shift_ms = 0.0 if overlapping else 100_000.0
            timelines += injected(arm, repeat, start_ms + shift_ms, stall_every_ms, 90.0)
            middle_ms, end_ms = start_ms + PHASE_MS, start_ms + 2 * PHASE_MS
            marks.append(mark(arm, "inject", repeat, "baseline", start_ms, middle_ms))
            marks.append(mark(arm, "inject", repeat, "inject", middle_ms, end_ms))
            start_ms += 20_000
            if alone_ttft_ms is not None:
                timelines += prompts_alone(arm, repeat, start_ms, alone_ttft_ms)
                marks.append(
                    mark(arm, "prompts_alone", repeat, "measure", start_ms, start_ms + 3_000)
                )
                start_ms += 20_000
            for condition, classes in (
                ("short_alone", ("short",)),
                ("long_alone", ("long",)),
                ("together", ("short", "long")),
            ):
                for name in classes:
                    alone = condition != "together"
                    ttft_ms = 50.0 if alone or name == "long" else short_ttft_ms[arm]
                    timelines += mix(arm, condition, repeat, start_ms, name, ttft_ms)
                marks.append(mark(arm, condition, repeat, "measure", start_ms, start_ms + 3_000))
                start_ms += 20_000
    issued = tuple(Issued(t.request_id, t.started_ns, t.tags) for t in timelines)
    manifest = {"target": {"gpus": gpus or dict.fromkeys(arms, 2)}}
    return RunRecords(Path("run"), manifest, tuple(timelines), issued, tuple(marks))


def mark(arm: str, condition: str, repeat: int, phase: str, start_ms: float, end_ms: float) -> Mark:
    return Mark(arm, condition, repeat, phase, round(start_ms * MS), round(end_ms * MS))
