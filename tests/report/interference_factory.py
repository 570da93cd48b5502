"""A made-up interference run: background streams that stall on one topology and not on the other."""

import random

import numpy as np
from run_factory import MS, make_timeline, write_run

from phasemeter.analysis.bootstrap import Quantile, ratio_interval
from phasemeter.analysis.finding import Arm, Exposure, Factor, Finding, Verdict
from phasemeter.analysis.phases import (
    background_gaps_ns,
    gaps_ended_within,
    injected_topologies,
    is_injected,
    marks_of,
    timelines_of,
)
from phasemeter.analysis.summary import summarise_group
from phasemeter.analysis.throughput import throughput
from phasemeter.analysis.window import Window

PROMPTS = (512, 1024, 2048, 4096)
PREFILL_MS_PER_TOKEN = {"mixed": 0.16, "separated": 0.19}
STEP_MS = 24
STREAMS = 8


def write_interference_run(path, *, repeats=2, seed=3, conditions=("inject", "mix")):
    """Write a run with both topologies under inject, short_alone, long_alone and together."""
    made = _Maker(random.Random(seed))
    for repeat in range(1, repeats + 1):
        for topology in ("mixed", "separated"):
            if "inject" in conditions:
                made.inject(topology, repeat)
            for condition in (
                ("short_alone", "long_alone", "together") if "mix" in conditions else ()
            ):
                made.measure(topology, condition, repeat)
    return write_run(path, made.timelines, kind="interference", marks=made.marks)


class _Maker:
    def __init__(self, rng):
        self.rng = rng
        self.timelines = []
        self.marks = []
        self.now_ms = 0.0
        self.number = 0

    def mark(self, topology, condition, repeat, phase, length_ms):
        self.marks.append(
            {
                "arm": topology,
                "condition": condition,
                "repeat": repeat,
                "phase": phase,
                "start_ns": round(self.now_ms * MS),
                "end_ns": round((self.now_ms + length_ms) * MS),
            }
        )
        self.now_ms += length_ms

    def add(self, start_ms, first_ms, gaps_ms, tags):
        self.number += 1
        self.timelines.append(
            make_timeline(
                f"r{self.number}", start_ms=start_ms, first_ms=first_ms, gaps_ms=gaps_ms, tags=tags
            )
        )

    def inject(self, topology, repeat):
        begin_ms = self.now_ms
        for phase, length_ms in (
            ("prime", 500),
            ("baseline", 2500),
            ("inject", 5000),
            ("recovery", 1500),
        ):
            self.mark(topology, "inject", repeat, phase, length_ms)
        tags = {"arm": topology, "condition": "inject", "repeat": str(repeat)}
        stalls = []
        for index, tokens in enumerate(PROMPTS):
            sent_ms = begin_ms + 3200 + index * 1150
            first_ms = sent_ms + 15 + tokens * PREFILL_MS_PER_TOKEN[topology]
            stalls.append((sent_ms + 5, first_ms - 5))
            injected = {"class": "injected", "prompt_tokens": str(tokens)}
            self.add(sent_ms, first_ms, [self.step() for _ in range(3)], tags | injected)
        for stream in range(STREAMS):
            start_ms = begin_ms + 11 * stream
            times = self.ticks(
                start_ms + 60, self.now_ms - 40, stalls if topology == "mixed" else ()
            )
            gaps = np.diff(times).tolist()
            self.add(start_ms, times[0], gaps, tags | {"class": "background"})

    def measure(self, topology, condition, repeat):
        begin_ms = self.now_ms
        self.mark(topology, condition, repeat, "measure", 3000)
        tags = {"arm": topology, "condition": condition, "repeat": str(repeat)}
        slow = 4 if (topology, condition) == ("mixed", "together") else 1
        if condition != "long_alone":
            for index in range(18):
                start_ms = begin_ms + 150 * index
                first_ms = start_ms + self.rng.uniform(40, 70) * slow
                gaps = [self.step() for _ in range(12)]
                self.add(start_ms, first_ms, gaps, tags | {"class": "short"})
        if condition != "short_alone":
            for index in range(6):
                start_ms = begin_ms + 420 * index
                first_ms = start_ms + self.rng.uniform(380, 460) * (1 + slow / 10)
                gaps = [self.step() for _ in range(6)]
                self.add(start_ms, first_ms, gaps, tags | {"class": "long"})

    def step(self):
        return STEP_MS + self.rng.gauss(0, 1.2) + self.rng.expovariate(2.0)

    def ticks(self, start_ms, end_ms, stalls):
        times, now = [], start_ms
        while now < end_ms:
            times.append(now)
            now += self.step()
            for stall_start, stall_end in stalls:
                if stall_start < now < stall_end:
                    now = stall_end + self.rng.uniform(0, 3)
        return times


def analyse(run):
    """A small analysis in the shape of the experiment's own, for documents to show."""
    arms = tuple(
        _arm(run, topology, condition)
        for topology in dict.fromkeys(mark.arm for mark in run.marks)
        for condition in dict.fromkeys(m.condition for m in run.marks if m.arm == topology)
    )
    factors = tuple(
        _gap_factor(run, topology, name, q)
        for topology in injected_topologies(run)
        for name, q in (("gap_p99", 0.99), ("gap_max", 1.0), ("gap_p50", 0.5))
    )
    unknown = Factor("mixed.together.short.ttft_p999", None, None, "too few requests", "alone")
    p99 = next((f for f in factors if f.name == "mixed.inject.background.gap_p99"), None)
    if p99 is None:
        return Finding(Verdict("none", "Nothing was injected."), arms=arms)
    text = (
        "On the mixed topology the background streams' p99 gap rose by a factor of "
        f"{p99.value:.1f} (95 % interval {p99.ci95[0]:.1f} to {p99.ci95[1]:.1f}) while prompts of "
        "512 to 4,096 tokens were injected; on the separated one no change was shown."
    )
    return Finding(
        verdict=Verdict("interference", text),
        factors=(*factors, unknown),
        arms=arms,
        exposures=tuple(_exposures(run)),
        notes=("One model and one machine: nothing is said of others.",),
    )


def _arm(run, topology, condition):
    timelines = timelines_of(run, topology, condition)
    issued = [
        request
        for request in run.issued
        if (request.tags["arm"], request.tags["condition"]) == (topology, condition)
    ]
    group = summarise_group(timelines, issued)
    marks = marks_of(run, topology, condition)
    return Arm(
        name=f"{topology}/{condition}",
        topology=topology,
        condition=condition,
        gpus=2,
        requests=group["requests"],
        metrics=group["metrics"],
        classes=group["classes"],
        throughput=throughput(
            timelines,
            [Window(m.start_ns, m.end_ns) for m in marks if m.phase in ("measure", "inject")],
        ),
    )


def _gap_factor(run, topology, name, q):
    def blocks(phase):
        marks = marks_of(run, topology, "inject", phase)
        streams = [t for t in timelines_of(run, topology, "inject") if not is_injected(t)]
        return [np.array(list(gaps_ended_within(stream, marks))) for stream in streams]

    value, lo, hi = ratio_interval(
        blocks("inject"), blocks("baseline"), Quantile(q), resamples=200, seed=1
    )
    return Factor(
        f"{topology}.inject.background.{name}",
        value,
        None if lo is None else (lo, hi),
        "during injection",
        "before it",
    )


def _exposures(run):
    for topology in injected_topologies(run):
        timelines = timelines_of(run, topology, "inject")
        streams = [timeline for timeline in timelines if not is_injected(timeline)]
        for prompt in filter(is_injected, timelines):
            longest_ns = max(
                gap_ns
                for stream in streams
                for gap_ns, later in stream.gaps()
                if later.t_ns > prompt.sent_ns and later.t_ns - gap_ns < prompt.first_token_ns
            )
            yield Exposure(
                topology,
                int(prompt.tags["prompt_tokens"]),
                longest_ns / MS,
                prompt.sent_ns,
                prompt.first_token_ns,
            )


def baseline_p99_ms(run, topology):
    """p99 of the background gaps before the injection."""
    return float(np.quantile(background_gaps_ns(run, topology, "baseline"), 0.99)) / MS
