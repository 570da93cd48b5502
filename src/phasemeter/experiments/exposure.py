"""Which background gaps an injection can have stretched.

An injection is one prompt, or several that were sent at the same moment. A gap is exposed to it when it
overlaps the time from its sending to its (last) first token, in the same run on the same instance.
From the client that time is an upper bound of the prefill: it holds the queue too. An injection overlapped
the background for sure only if background streams of the instance were decoding as its first token came,
for then they shared the engine with its prefill. A prompt that waited until they had ended overlapped
nothing, however many gaps fell into its wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from phasemeter.analysis.finding import Exposure
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Timeline
from phasemeter.experiments.inject_run import Gaps, InjectRun, instance_of
from phasemeter.metrics.stall import stalls_ns


@dataclass(frozen=True, slots=True)
class Injection:
    """One injection on one instance.

    Attributes:
        run: The run that it belongs to.
        instance: Where its prompts were answered.
        prompts: The responses, first sent first.
        prompt_tokens: Length of each prompt.
        together: How many prompts were sent at the moment, over all instances.
        start_ns: First prompt sent.
        end_ns: Last first token.
        decoding: Background streams that were decoding as a first token came, within the phase.
        gaps: The exposed gaps that ended within the phase.
        episode: Number of the group of injections whose times overlap on the instance.
    """

    run: InjectRun
    instance: str
    prompts: tuple[Timeline, ...]
    prompt_tokens: int
    together: int
    start_ns: int
    end_ns: int
    decoding: int
    gaps: Gaps
    episode: int

    @property
    def overlapped(self) -> bool:
        """Whether its prefill shared the engine with background streams for sure."""
        return self.decoding > 0 and self.gaps.ends_ns.size > 0

    @property
    def longest_ns(self) -> int:
        """The longest exposed gap; only of one that overlapped."""
        return int(self.gaps.lengths_ns.max())

    @property
    def key(self) -> tuple[int, str, int]:
        """Its episode within the topology: what a bootstrap may resample."""
        return id(self.run), self.instance, self.episode


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far injections and background overlapped on one topology.

    Attributes:
        exposures: Each injection that overlapped, with the longest background gap.
        injections: Injections whose prompts got a first token.
        shared: Those on an instance that background streams were on.
    """

    exposures: tuple[Exposure, ...]
    injections: int
    shared: int


def injections_of(run: InjectRun) -> list[Injection]:
    """Return a run's injections that got their first tokens, by their sending."""
    phase = run.marks.get("inject")
    if phase is None:
        return []
    found: list[Injection] = []
    for instance, moments in _moments(run.injected).items():
        gaps = run.phase_gaps("inject", instance)
        episode, busy_until_ns = -1, -1
        for start_ns, end_ns, prompts in moments:
            if start_ns >= busy_until_ns:
                episode += 1
            busy_until_ns = max(busy_until_ns, end_ns)
            exposed = gaps.overlapping(start_ns, end_ns)
            first_tokens = [one.events[0].t_ns for one in prompts]
            within = [t_ns for t_ns in first_tokens if phase.start_ns <= t_ns < phase.end_ns]
            found.append(
                Injection(
                    run=run,
                    instance=instance,
                    prompts=prompts,
                    prompt_tokens=int(prompts[0].tags.get("prompt_tokens", "0")),
                    together=int(prompts[0].tags.get("together", "1")),
                    start_ns=start_ns,
                    end_ns=end_ns,
                    decoding=max((run.decoding_at(t_ns, instance) for t_ns in within), default=0),
                    gaps=exposed,
                    episode=episode,
                )
            )
    return sorted(found, key=lambda one: one.start_ns)


def _moments(
    injected: Iterable[Timeline],
) -> dict[str, list[tuple[int, int, tuple[Timeline, ...]]]]:
    """Group prompts that were meant to be sent at one moment: (sent, last first token, prompts)."""
    groups: dict[tuple[str, int], list[Timeline]] = defaultdict(list)
    for timeline in injected:
        if timeline.sent_ns is not None and timeline.events:
            moment_ns = timeline.intended_ns or timeline.sent_ns
            groups[instance_of(timeline), moment_ns].append(timeline)
    moments: dict[str, list[tuple[int, int, tuple[Timeline, ...]]]] = defaultdict(list)
    for (instance, _), prompts in groups.items():
        start_ns = min(one.sent_ns or 0 for one in prompts)
        end_ns = max(one.events[0].t_ns for one in prompts)
        moments[instance].append((start_ns, end_ns, tuple(prompts)))
    for each in moments.values():
        each.sort(key=lambda moment: moment[:2])
    return moments


def exposed_share(runs: Sequence[InjectRun], injections: Sequence[Injection]) -> float | None:
    """Return the share of background gaps during injection that were exposed to one that overlapped.

    None without gaps.
    """
    gaps = exposed = 0
    for run in runs:
        for instance in run.gaps:
            gaps += run.phase_gaps("inject", instance).ends_ns.size
            mine = [
                one
                for one in injections
                if one.run is run and one.instance == instance and one.overlapped
            ]
            exposed += len(
                {
                    gap
                    for one in mine
                    for gap in zip(one.gaps.ends_ns.tolist(), one.gaps.stream.tolist(), strict=True)
                }
            )
    return exposed / gaps if gaps else None


def overlap_of(arm: str, injections: Sequence[Injection]) -> Overlap:
    """Return how far a topology's injections and its background overlapped."""
    return Overlap(
        exposures=tuple(
            Exposure(
                arm,
                one.prompt_tokens,
                one.longest_ns / NS_PER_MS,
                one.start_ns,
                one.end_ns,
                one.together,
                one.run.users or None,
                one.decoding,
            )
            for one in sorted(injections, key=lambda each: each.start_ns)
            if one.overlapped
        ),
        injections=len(injections),
        shared=sum(one.instance in one.run.gaps for one in injections),
    )


def stalled_ns(run: InjectRun, phase: str) -> list[int]:
    """Return the lengths of the background's stalls that ended within a phase."""
    mark = run.marks.get(phase)
    if mark is None:
        return []
    found = []
    for timeline in run.background:
        stalls = stalls_ns(timeline)
        if stalls:
            least_ns = min(stalls)
            found += [
                gap_ns
                for gap_ns, later in timeline.gaps()
                if gap_ns >= least_ns and mark.start_ns <= later.t_ns < mark.end_ns
            ]
    return found
