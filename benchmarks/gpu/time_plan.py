"""What is measured in the time there is: every length is settled before anything starts.

Parts are taken in order of importance. First each gets one round of its shortest useful length, as long as
they fit; then a second round (topologies then swap places: A B, B A); what is left makes all of them longer.
How long a part takes follows from the experiment's own plan, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from phasemeter.experiments.arm_run import ArmRun
from phasemeter.experiments.inject_plan import ALONE
from phasemeter.experiments.interference_plan import arm_runs
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.load.workload import parse_mix

PartName = Literal["inject", "mix", "ramp-mix", "ramp-long"]
STOP_S = 12.0
"""For the servers to end."""
PROBE_S = 15.0
"""For the measurement from which rates are chosen."""
CLOSE_S = 10.0
"""For results and archive, after the last part."""
_AROUND_S = PROBE_S + STOP_S + CLOSE_S
_PART_S = 14.0  # command, preflight and warm-up before a part, report after it
_RUN_S = 3.5  # worker start and last answers of a run
_STEP_S = 0.5
_ALONE_S = 5.0

_MEASURED_S: dict[PartName, tuple[float, float]] = {
    "inject": (8, 20),
    "mix": (6, 15),
    "ramp-mix": (4, 10),
    "ramp-long": (4, 10),
}
"""Shortest useful and longest needed measured time of one run."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What requests ask for.

    Attributes:
        mix: A short and a long class.
        long: The long class alone.
        inject_tokens: Lengths of the injected prompts.
        ramp_users: Levels of the ramp.
    """

    mix: str
    long: str
    inject_tokens: tuple[int, ...]
    ramp_users: tuple[int, ...] = (1, 2, 4, 8, 16, 32)

    @property
    def long_prompt_tokens(self) -> int:
        """Prompt of the long class."""
        return parse_mix(self.long)[0].prompt_tokens


SIZES = {
    "llama-3.1-8b": Sizes(
        "short=60%:256/128,long=40%:3000/100", "long=100%:3000/100", (512, 1024, 2048, 4096)
    ),
    "small": Sizes("short=60%:32/24,long=40%:384/12", "long=100%:384/12", (128, 256, 512)),
}
"""By name of the model's shape."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One part on one target.

    Attributes:
        target: What is measured: a name for one or more topologies that are up together.
        part: The part.
    """

    target: str
    part: PartName


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """One part with its lengths.

    Attributes:
        target: What is measured.
        name: The part.
        arms: Names of the topologies.
        sizes: What requests ask for.
        repeats: Rounds.
        seconds: Measured time of one run.
    """

    target: str
    name: PartName
    arms: tuple[str, ...]
    sizes: Sizes
    repeats: int
    seconds: float

    @property
    def label(self) -> str:
        """`target/part`."""
        return f"{self.target}/{self.name}"

    @property
    def limit_s(self) -> float:
        """Time that the part may take in all."""
        runs = arm_runs(self.settings, list(self.arms))
        return _PART_S + sum(_run_s(run) for run in runs)

    @property
    def settings(self) -> InterferenceSettings:
        """The same as settings of the experiment."""
        settings = InterferenceSettings(repeats=self.repeats)
        if self.name == "inject":
            lengths = self.sizes.inject_tokens
            return replace(
                settings,
                conditions=("inject",),
                inject_prompt_tokens=lengths,
                inject_s=self.seconds,
            )
        if self.name == "mix":
            return replace(settings, conditions=("mix",), mix_s=self.seconds)
        levels = self.sizes.ramp_users
        return replace(settings, conditions=("ramp",), ramp_users=levels, ramp_s=self.seconds)

    def options(self, *, rate_per_s: float, injections_per_s: float) -> list[str]:
        """Return the part as options of `phasemeter interference`.

        Args:
            rate_per_s: Requests per second of the mix.
            injections_per_s: Injected prompts per second.
        """
        seconds = f"{self.seconds:g}s"
        shared = ["--repeats", str(self.repeats)]
        if self.name == "inject":
            lengths = ",".join(map(str, self.sizes.inject_tokens))
            own = ["--conditions", "inject", "--inject-tokens", lengths, "--inject-time", seconds]
            return [*own, "--inject-rate", f"{injections_per_s:g}", *shared]
        if self.name == "mix":
            own = ["--conditions", "mix", "--mix", self.sizes.mix, "--mix-time", seconds]
            return [*own, "--rate", f"{rate_per_s:g}", *shared]
        asked = self.sizes.mix if self.name == "ramp-mix" else self.sizes.long
        levels = ",".join(map(str, self.sizes.ramp_users))
        own = ["--conditions", "ramp", "--ramp-mix", asked, "--ramp-users", levels]
        return [*own, "--ramp-time", seconds, *shared]


@dataclass(frozen=True, slots=True)
class TimePlan:
    """The whole plan.

    Attributes:
        budget_s: Time there is.
        start_s: Time limit until the servers answer.
        parts: What is measured, in order.
        left_out: What there is no time for, as `target/part`.
    """

    budget_s: float
    start_s: float
    parts: tuple[PlannedPart, ...]
    left_out: tuple[str, ...]

    @property
    def total_s(self) -> float:
        """Time that everything takes at most."""
        return self.start_s + _AROUND_S + sum(part.limit_s for part in self.parts)

    def ends_s(self) -> list[float]:
        """Return when each part must be over, from the plan's beginning; what one leaves over adds up."""
        return list(
            accumulate((part.limit_s for part in self.parts), initial=self.start_s + PROBE_S)
        )[1:]


def time_plan(
    budget_s: float,
    wanted: Sequence[Wanted],
    *,
    arms: tuple[str, ...],
    sizes: Sizes,
    start_s: float,
) -> TimePlan:
    """Return what is measured within a time.

    Args:
        budget_s: Time there is, from now to the end of the script.
        wanted: What to measure, the most important first.
        arms: Names of the topologies of each target.
        sizes: What requests ask for.
        start_s: Time limit until the servers answer; 0 once they do.
    """
    spare_s = budget_s - start_s - _AROUND_S
    chosen: list[PlannedPart] = []
    left_out: list[str] = []
    for one in wanted:
        shortest_s = _MEASURED_S[one.part][0]
        part = PlannedPart(one.target, one.part, arms, sizes, 1, shortest_s)
        if part.limit_s > spare_s:
            left_out.append(part.label)
        else:
            spare_s -= part.limit_s
            chosen.append(part)
    for number, part in enumerate(chosen):
        twice = replace(part, repeats=2)
        more_s = twice.limit_s - part.limit_s
        if more_s <= spare_s:
            chosen[number], spare_s = twice, spare_s - more_s
    chosen = _alike(_lengthened(chosen, spare_s))
    return TimePlan(budget_s, start_s, tuple(chosen), tuple(left_out))


def _alike(parts: list[PlannedPart]) -> list[PlannedPart]:
    """Give the same part on several targets the same lengths: what can be compared must be."""
    return [
        replace(
            part,
            repeats=min(one.repeats for one in parts if one.name == part.name),
            seconds=min(one.seconds for one in parts if one.name == part.name),
        )
        for part in parts
    ]


def _run_s(run: ArmRun) -> float:
    """Return what a run takes; prompts alone are a fixed number, sent far faster than their limit."""
    length_s = _ALONE_S if run.condition == ALONE else run.plan.duration_s
    return min(length_s, run.plan.duration_s) + _RUN_S


def _lengthened(parts: list[PlannedPart], spare_s: float) -> list[PlannedPart]:
    """Give out spare time in small steps, in turn, until none is left that anyone can use."""
    given = True
    while given:
        given = False
        for number, part in enumerate(parts):
            longer = replace(part, seconds=part.seconds + _STEP_S)
            more_s = longer.limit_s - part.limit_s
            if longer.seconds <= _MEASURED_S[part.name][1] and more_s <= spare_s:
                parts[number], spare_s, given = longer, spare_s - more_s, True
    return parts
