"""How the interference experiment is run: the sizes that a user may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from phasemeter.load.workload import RequestClass

Condition = Literal["inject", "mix", "ramp"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
"""What can be done to a topology, in the order in which it is done."""

DEFAULT_CONDITIONS: tuple[Condition, ...] = ("inject", "mix")
"""A ramp takes as long as both together, so it is run when it is asked for."""

_BACKGROUND = RequestClass("background", 64, 256)
_MIX = (RequestClass("short", 256, 128, 0.6), RequestClass("long", 3000, 100, 0.4))


@dataclass(frozen=True, slots=True)
class InterferenceSettings:
    """How the experiment is run; the defaults suit a server on one GPU.

    Attributes:
        conditions: Which conditions are run.
        background_users: Numbers of streams that decode all the time, one run each.
        background: What they ask for.
        inject_prompt_tokens: Lengths of the injected prompts.
        inject_together: How many prompts are injected at the same moment.
        inject_output_tokens: Tokens generated for an injected prompt.
        injections_per_s: Injections per second, each of one or more prompts.
        alone_each: How often each prompt is sent with nothing beside it.
        alone_s: Time in which these prompts are sent at most.
        prime_s: Time for the background to get going.
        baseline_s: Background alone.
        inject_s: Background with injected prompts.
        recovery_s: Background alone again.
        mix: The two classes of the mix condition, the short one first; shares split the rate.
        rate_per_s: Requests per second of both classes together.
        mix_s: Time in which the requests of a mix condition arrive.
        ramp_users: Levels of the ramp: numbers of users.
        ramp_mix: What the users of the ramp ask for; the mix where empty.
        ramp_prime_s: Time for the users of a level to get going; not measured.
        ramp_s: Measured time of a level.
        ramp_drain_s: Time for the last answers of a level, which come late where many users wait.
        drain_s: Time for the last answers of any other condition.
        repeats: How often everything is run.
        seed: Source of everything drawn.
    """

    conditions: tuple[Condition, ...] = DEFAULT_CONDITIONS
    background_users: tuple[int, ...] = (8,)
    background: RequestClass = _BACKGROUND
    inject_prompt_tokens: tuple[int, ...] = (512, 1024, 2048, 4096)
    inject_together: tuple[int, ...] = (1,)
    inject_output_tokens: int = 8
    injections_per_s: float = 2.0
    alone_each: int = 3
    alone_s: float = 30.0
    prime_s: float = 2.0
    baseline_s: float = 10.0
    inject_s: float = 15.0
    recovery_s: float = 2.0
    mix: tuple[RequestClass, RequestClass] = _MIX
    rate_per_s: float = 4.0
    mix_s: float = 15.0
    ramp_users: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    ramp_mix: tuple[RequestClass, ...] = ()
    ramp_prime_s: float = 3.0
    ramp_s: float = 15.0
    ramp_drain_s: float = 60.0
    drain_s: float = 20.0
    repeats: int = 2
    seed: int = 1


LAB_SETTINGS = InterferenceSettings(
    background=RequestClass("background", 8, 320),
    inject_prompt_tokens=(192, 320, 448),
    inject_output_tokens=8,
    injections_per_s=4.0,
    alone_each=2,
    alone_s=5.0,
    prime_s=1.0,
    baseline_s=4.0,
    inject_s=6.0,
    recovery_s=1.0,
    mix=(RequestClass("short", 32, 32, 0.7), RequestClass("long", 512, 16, 0.3)),
    rate_per_s=7.0,
    mix_s=6.0,
    ramp_users=(1, 2, 4, 8, 16),
    ramp_prime_s=2.0,
    ramp_s=5.0,
    ramp_drain_s=20.0,
    drain_s=8.0,
)
"""Sizes at which two cores of the lab engine show the effect in about two minutes."""
