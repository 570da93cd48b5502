"""Condition ramp: a closed loop of more and more users, each asking for one request of the mix at a time.

Levels come in an order of their own each time round, the same on every topology, so that neither a drift of
the machine nor what the level before left behind is taken for an effect of the number of users.
"""

from __future__ import annotations

from random import Random

from phasemeter.experiments.arm_run import ArmRun, phases_of, seed_of, tags_of
from phasemeter.experiments.interference_settings import InterferenceSettings
from phasemeter.load.plan import Plan, UserFlow

_PREFIX = "ramp_u"
_START_SHARE = 0.5


def ramp_runs(settings: InterferenceSettings, arm: str, repeat: int) -> list[ArmRun]:
    """Return the runs of this condition on one topology, once: one a level."""
    levels = list(settings.ramp_users)
    Random(f"{settings.seed}/ramp/{repeat}").shuffle(levels)
    phases = phases_of((("prime", settings.ramp_prime_s), ("measure", settings.ramp_s)))
    end_s = phases[-1].end_s
    runs = []
    for users in levels:
        condition = condition_of(users)
        flow = UserFlow(
            name=condition,
            mix=settings.ramp_mix or settings.mix,
            users=users,
            start_s=0.0,
            stop_s=end_s,
            spread_s=settings.ramp_prime_s * _START_SHARE,
            tags=tags_of(arm, condition, repeat),
        )
        plan = Plan((flow,), end_s, settings.ramp_drain_s, seed_of(settings.seed, repeat))
        runs.append(ArmRun(arm, condition, repeat, plan, phases))
    return runs


def condition_of(users: int) -> str:
    """Return the name by which the records of a level are found again."""
    return f"{_PREFIX}{users}"


def users_of(condition: str) -> int | None:
    """Return the users of a level, or None for a condition that is no level of a ramp."""
    number = condition.removeprefix(_PREFIX)
    return int(number) if number != condition and number.isdecimal() else None
