"""Phase-isolated measurement: what is run to find what each phase can do when the other is not there.

Prefill alone: answers of one token, prompts of the mix, in a closed loop. Decode alone: streams whose
prompts have been read; a new prompt comes when a stream ends, and those stretches are not counted (see
`capacity`). Both at 1, 2, 4, ... users until more users bring no more. A topology's throughput on the mix
is searched for in the same way. What was found is then measured again, longer, in turns: a figure that
was picked as the largest of several is too large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from phasemeter.experiments.arm_run import ArmRun, phases_of, seed_of, tags_of
from phasemeter.load.plan import Plan, UserFlow
from phasemeter.load.workload import RequestClass

ISOLATED = "isolated"
"""Name of the arm of the one instance that is measured phase by phase."""

SEARCH, MEASURE = "search", "measure"

Condition = Literal["prefill", "decode", "mix"]

GAIN = 1.05
"""Twice the users must bring 5 % more, or the search ends."""

_MIX = (RequestClass("short", 256, 128, 0.6), RequestClass("long", 3000, 100, 0.4))


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """How rates are measured; the defaults suit a server on one GPU.

    Attributes:
        mix: Classes of the traffic to plan for.
        instances: Instances to plan for.
        gpus_per_instance: Accelerators that one instance has.
        decode_context_tokens: Mean context of the streams that decode alone; the mix's where None.
        most_users: The search goes no further.
        warm_up_s: Left out at the start of each run.
        search_s: Measured for each number of users of the search.
        measure_s: Measured for each repeat of what was found.
        drain_s: Time for the last answers of a run.
        repeats: How often what was found is measured.
        seed: Source of everything drawn.
    """

    mix: tuple[RequestClass, ...] = _MIX
    instances: int = 2
    gpus_per_instance: int = 1
    decode_context_tokens: int | None = None
    most_users: int = 256
    warm_up_s: float = 2.0
    search_s: float = 5.0
    measure_s: float = 20.0
    drain_s: float = 60.0
    repeats: int = 2
    seed: int = 1


LAB_SETTINGS = PlannerSettings(
    mix=(RequestClass("short", 32, 32, 0.7), RequestClass("long", 512, 16, 0.3)),
    most_users=48,
    warm_up_s=0.5,
    search_s=1.5,
    measure_s=6.0,
    drain_s=15.0,
)
"""Sizes at which two cores of the lab engine are measured in about four minutes."""


def mean_lengths(mix: Sequence[RequestClass]) -> tuple[float, float]:
    """Return the mean prompt and output tokens of a request of the mix."""
    shares = sum(one.share for one in mix)
    prompt = sum(one.share * one.prompt_tokens for one in mix) / shares
    output = sum(one.share * one.output_tokens for one in mix) / shares
    return prompt, output


def mean_context(mix: Sequence[RequestClass]) -> float:
    """Return the mean number of tokens before a token that is being decoded.

    Classes count by their output tokens: whoever writes longer answers decodes more of the time.
    """
    weights = [one.share * one.output_tokens for one in mix]
    contexts = [one.prompt_tokens + one.output_tokens / 2 for one in mix]
    return sum(w * c for w, c in zip(weights, contexts, strict=True)) / sum(weights)


@dataclass(frozen=True, slots=True)
class Pace:
    """What is known of one instance's speed before streams are sized.

    Attributes:
        prompt_tokens_per_s: Prompt tokens read per second, decode being absent.
        step_s: Time between two tokens of a stream, with the most streams tried so far; None before
            any were.
    """

    prompt_tokens_per_s: float
    step_s: float | None = None


def decode_class(settings: PlannerSettings, streams: int, pace: Pace) -> RequestClass:
    """Return what streams that decode alone ask for.

    Their mean context is the mix's, so that each token costs what it will cost. Their answers are
    longer than the mix's where they must be: at least twice the time in which the prompts of all
    streams are read, or all of them would never decode at the same time.
    """
    context = settings.decode_context_tokens or mean_context(settings.mix)
    longest = max(one.output_tokens for one in settings.mix)
    output = float(longest)
    if pace.step_s is not None:
        # 2 streams prompt / rate = output step, with prompt = context - output / 2.
        prompts_per_step = streams / (pace.prompt_tokens_per_s * pace.step_s)
        output = max(output, 2 * prompts_per_step * context / (1 + prompts_per_step))
    output_tokens = math.ceil(output)
    return RequestClass("streams", max(round(context - output_tokens / 2), 1), output_tokens)


def prefill_run(settings: PlannerSettings, users: int, repeat: int, pace: Pace | None) -> ArmRun:
    """Return a run of prompts alone; repeat 0 is one of the search, whose first knows no pace."""
    mix = tuple(replace(one, output_tokens=1) for one in settings.mix)
    prompt, _ = mean_lengths(mix)
    turn_s = 0.0 if pace is None else users * prompt / pace.prompt_tokens_per_s
    return _run(settings, ISOLATED, "prefill", mix, users, repeat, _Spans.of_turn(turn_s))


def decode_run(settings: PlannerSettings, streams: int, repeat: int, pace: Pace) -> ArmRun:
    """Return a run of so many streams that decode alone."""
    wanted = decode_class(settings, streams, pace)
    prompts_s = streams * wanted.prompt_tokens / pace.prompt_tokens_per_s
    answer_s = wanted.output_tokens * (pace.step_s or 0.0)
    # Times in which not all streams decode are not counted, so nothing need follow.
    spans = _Spans(prompts_s, prompts_s + 2 * answer_s, 0.0)
    return _run(settings, ISOLATED, "decode", (wanted,), streams, repeat, spans)


def mix_run(
    settings: PlannerSettings, arm: str, users: int, repeat: int, requests_per_s: float
) -> ArmRun:
    """Return a run of the mix on a topology.

    Args:
        settings: How rates are measured.
        arm: The topology.
        users: Users of the closed loop.
        repeat: Which time; 0 is one of the search.
        requests_per_s: What is expected.
    """
    spans = _Spans.of_turn(users / requests_per_s)
    return _run(settings, arm, "mix", settings.mix, users, repeat, spans)


@dataclass(frozen=True, slots=True)
class _Spans:
    """What a run's times must be at least, in seconds.

    Attributes:
        warm_up_s: Beyond the settings' warm-up.
        measured_s: In all.
        cool_down_s: What is in flight at the end of the measured time must end under the same load.
    """

    warm_up_s: float
    measured_s: float
    cool_down_s: float

    @classmethod
    def of_turn(cls, turn_s: float) -> _Spans:
        """Return them for users whose request takes so long: users / rate, by Little's law."""
        return cls(turn_s, 4 * turn_s, turn_s)


def _run(
    settings: PlannerSettings,
    arm: str,
    condition: Condition,
    mix: tuple[RequestClass, ...],
    users: int,
    repeat: int,
    spans: _Spans,
) -> ArmRun:
    named = f"{condition}@{users}"
    phase, length_s = (MEASURE, settings.measure_s) if repeat else (SEARCH, settings.search_s)
    lengths = (
        ("warm-up", settings.warm_up_s + spans.warm_up_s),
        (phase, max(length_s, spans.measured_s)),
        ("cool-down", spans.cool_down_s),
    )
    phases = phases_of(lengths)
    end_s = phases[-1].end_s
    flow = UserFlow(
        name="users",
        mix=mix,
        users=users,
        start_s=0.0,
        stop_s=end_s,
        tags=tags_of(arm, named, repeat),
        even_mix=True,
    )
    plan = Plan((flow,), end_s, settings.drain_s, seed_of(settings.seed, repeat))
    return ArmRun(arm, named, repeat, plan, phases)


@dataclass(frozen=True, slots=True)
class Level:
    """What a number of users brought.

    Attributes:
        users: Users, or streams.
        rate: Work per second; None where so many were never served at a time.
        together: The most that were served at a time, where that is known.
    """

    users: int
    rate: float | None
    together: int | None = None


def next_users(levels: Sequence[Level], *, first: int, most: int, patience: int = 1) -> int | None:
    """Return the next number of users to try, None when the search is over.

    Doubles until that brings less than `GAIN`. Where the server did not serve so many at a time, the
    number that it does serve is tried last.

    Args:
        levels: What has been tried, in order.
        first: Where to begin.
        most: Where to end.
        patience: How often in a row doubling may bring nothing.
    """
    if not levels:
        return min(first, most)
    tried = {level.users for level in levels}
    last = levels[-1]
    if last.rate is None:
        fits = last.together or 0
        return fits if fits > 0 and fits not in tried else None
    if len(levels) > patience:
        rates = [level.rate or 0.0 for level in levels]
        if max(rates[-patience:]) < GAIN * max(rates[:-patience]):
            return None
    following = min(2 * last.users, most)
    return None if following in tried or any(one.rate is None for one in levels) else following


def best_level(levels: Sequence[Level]) -> Level | None:
    """Return the level with the highest rate, None where there is none."""
    rated = [level for level in levels if level.rate is not None]
    return max(rated, key=lambda level: level.rate or 0.0) if rated else None


def still_rising(levels: Sequence[Level], most: int) -> bool:
    """Tell whether the search ended at its limit while more users still brought more."""
    rated = [level for level in levels if level.rate is not None]
    if len(rated) < 2 or rated[-1].users < most:
        return False
    return (rated[-1].rate or 0) >= GAIN * max(level.rate or 0 for level in rated[:-1])
