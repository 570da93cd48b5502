"""The role `elastic`: one instance that takes prefill and decode turns as its queue asks.

In a prefill turn a step computes prompts only and the streams stand still; in a decode turn it computes
the streams' next tokens only and prompts wait. Turns change between steps, by these rules alone:

- nothing to compute: the role stays;
- only prompts: prefill; only streams: decode;
- both, in a decode turn: prefill once decode has slack, that is, when at most a quarter of the slots
  decode, and the turn is at least `LEAST_STEPS` long;
- both, in a prefill turn: decode once half of the slots decode, or the turn is `MOST_STEPS` long.

The two marks apart and the least length are the hysteresis; the greatest length bounds how long a stream
stands still. Hand-offs hold at most half of the slots (`may_hold`), so that pulls always find room: two
instances that wait for each other's slots would wait until their leases end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Turn = Literal["prefill", "decode"]
TURNS: tuple[Turn, ...] = ("prefill", "decode")

LEAST_STEPS = 8
MOST_STEPS = 8


def next_turn(turn: Turn, steps: int, *, prompts: int, streams: int, slots: int) -> Turn:
    """Return the role for the next step; see the module.

    Args:
        turn: Role of the last step.
        steps: How many steps in a row had it.
        prompts: Prompts that could be computed now: they wait for nothing but their turn.
        streams: Sequences whose next token could be computed now.
        slots: Cache slots of the instance.
    """
    if not prompts and not streams:
        return turn
    if not prompts or not streams:
        return "prefill" if prompts else "decode"
    if turn == "decode":
        has_slack = streams <= max(slots // 4, 1)
        return "prefill" if has_slack and steps >= LEAST_STEPS else "decode"
    return "decode" if streams >= max(slots // 2, 1) or steps >= MOST_STEPS else "prefill"


def may_hold(slots: int) -> int:
    """Return how many slots prompts and hand-offs may have at a time."""
    return slots // 2


@dataclass(slots=True)
class ElasticRole:
    """The role of one instance over time.

    Attributes:
        slots: Cache slots of the instance.
        turn: Present role.
        switches: How often it changed.
    """

    slots: int
    turn: Turn = "decode"
    switches: int = 0
    _steps: int = 0

    def take(self, *, prompts: int, streams: int) -> Turn:
        """Return the role for the step that is about to be computed, and count it."""
        turn = next_turn(self.turn, self._steps, prompts=prompts, streams=streams, slots=self.slots)
        if turn != self.turn:
            self.turn, self._steps = turn, 0
            self.switches += 1
        self._steps += bool(prompts or streams)
        return turn
