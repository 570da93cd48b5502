"""Condition inject: prompts alone, then background streams alone and with prompts beside them.

A run has one number of background users and goes through the cells of the grid, prompt length by number
of prompts sent together, in an order that is drawn anew for each deck of all cells. Each time round the
runs go through the numbers of background users in another order, and through the deck from where they
left off, so that all cells come equally often and none always comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from random import Random

from phasemeter.experiments.arm_run import ArmRun, Phase, phases_of, seed_of, tags_of
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.load.plan import Plan, TimedFlow, UserFlow
from phasemeter.load.workload import RequestClass

CONDITION = "inject"
ALONE = "prompts_alone"
INJECTED = "injected"
BACKGROUND = "background"

Cell = tuple[int, int]
"""Length of a prompt in tokens, and how many of them are sent together."""


def inject_runs(settings: InterferenceSettings, arm: str, repeat: int) -> list[ArmRun]:
    """Return the runs of this condition on one topology, once."""
    users = list(settings.background_users)
    Random(f"{settings.seed}/{repeat}/background users").shuffle(users)
    return [
        _alone_run(settings, arm, repeat),
        *(_inject_run(settings, arm, repeat, number) for number in users),
    ]


def _alone_run(settings: InterferenceSettings, arm: str, repeat: int) -> ArmRun:
    """One user asks for each prompt in turn: what a first token takes without the background."""
    lengths = settings.inject_prompt_tokens
    flow = UserFlow(
        name=INJECTED,
        mix=tuple(_injected(settings, tokens) for tokens in lengths),
        users=1,
        start_s=0.0,
        stop_s=settings.alone_s,
        max_requests=settings.alone_each * len(lengths),
        in_turn=True,
        tags=tags_of(arm, ALONE, repeat),
    )
    plan = Plan((flow,), settings.alone_s, settings.drain_s, seed_of(settings.seed, repeat))
    return ArmRun(arm, ALONE, repeat, plan, phases_of((("measure", settings.alone_s),)))


def _inject_run(settings: InterferenceSettings, arm: str, repeat: int, users: int) -> ArmRun:
    tags = tags_of(arm, CONDITION, repeat) | {"users": str(users)}
    phases = phases_of(
        (
            ("prime", settings.prime_s),
            ("baseline", settings.baseline_s),
            ("inject", settings.inject_s),
            ("recovery", settings.recovery_s),
        )
    )
    background = UserFlow(
        name=BACKGROUND,
        mix=(settings.background,),
        users=users,
        start_s=0.0,
        stop_s=phases[-1].end_s,
        spread_s=settings.prime_s / 2,
        tags=tags,
    )
    inject = next(phase for phase in phases if phase.name == "inject")
    drawn = list(_injections(settings, inject, repeat, users))
    injected = [
        TimedFlow(
            f"{INJECTED}-{together}",
            tuple(
                (offset_s, _injected(settings, tokens))
                for offset_s, (tokens, number) in drawn
                if number == together
                for _ in range(together)
            ),
            tags | {"together": str(together)},
        )
        for together in settings.inject_together
    ]
    plan = Plan(
        (background, *injected),
        phases[-1].end_s,
        settings.drain_s,
        seed_of(settings.seed, repeat),
    )
    return ArmRun(arm, CONDITION, repeat, plan, phases, users)


def _injected(settings: InterferenceSettings, prompt_tokens: int) -> RequestClass:
    return RequestClass(INJECTED, prompt_tokens, settings.inject_output_tokens)


def _injections(
    settings: InterferenceSettings, phase: Phase, repeat: int, users: int
) -> Iterator[tuple[float, Cell]]:
    offsets_s = list(
        _jittered(phase, settings.injections_per_s, Random(f"{settings.seed}/{repeat}/{users}"))
    )
    deck = _deck(settings, Random(f"{settings.seed}/{users}/cells"))
    return zip(offsets_s, islice(deck, (repeat - 1) * len(offsets_s), None), strict=False)


def _deck(settings: InterferenceSettings, rng: Random) -> Iterator[Cell]:
    """Yield all cells in random order, then all again in another, without end."""
    cells = list(product(settings.inject_prompt_tokens, settings.inject_together))
    while True:
        rng.shuffle(cells)
        yield from cells


def _jittered(phase: Phase, rate_per_s: float, rng: Random) -> Iterator[float]:
    """Yield evenly spaced times, each moved by up to a quarter of the spacing.

    Spacing keeps the injections apart so that each one's effect can be told; the jitter keeps them
    from falling into step with the engine.
    """
    spacing_s = 1 / rate_per_s
    number = int((phase.end_s - phase.start_s) * rate_per_s)
    for k in range(number):
        yield phase.start_s + spacing_s * (k + 0.25 + rng.uniform(-0.25, 0.25))
