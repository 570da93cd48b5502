"""How many instances should prefill and how many decode: the arithmetic of phase-isolated rates.

From what one instance does of each phase alone, in requests of a mix per second (rP, rD):

- xPyD, x prefill and y decode instances: min(x rP, y rD), the rule of DistServe (OSDI'24, figure 1);
- n mixed instances, or n elastic ones, whose phases take turns: n / (1/rP + 1/rD).

Neither has any interference, hand-off or idle time in it. For xPyD that is an upper bound. For mixed
instances it is the bound of phases that take turns: an engine that computes decode rows in the same pass
as prompts can do better, since the pass reads the weights once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasemeter.analysis.bootstrapped import Bootstrapped, derived

if TYPE_CHECKING:
    from phasemeter.analysis.bootstrapped import Draws

Kind = Literal["separated", "mixed", "elastic"]


@dataclass(frozen=True, slots=True)
class Shape:
    """A topology by its numbers of instances.

    Attributes:
        kind: `separated`: x prefill and y decode instances. `mixed`: every instance serves whole
            requests. `elastic`: every instance serves either leg of a hand-off.
        prefill: Instances that prefill; all where mixed or elastic.
        decode: Instances that decode; all where mixed or elastic.
    """

    kind: Kind
    prefill: int
    decode: int

    @property
    def instances(self) -> int:
        """How many instances there are."""
        return self.prefill + self.decode if self.kind == "separated" else self.prefill

    @property
    def name(self) -> str:
        """`2P1D`, `3 mixed` or `2 elastic`."""
        if self.kind == "separated":
            return f"{self.prefill}P{self.decode}D"
        return f"{self.prefill} {self.kind}"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one instance does of each phase alone.

    Attributes:
        prefill: Requests of the mix per second whose prompts are read, nothing else being done.
        decode: Requests of the mix per second whose answers are written, nothing else being done.
        output_tokens: Mean tokens of an answer.
    """

    prefill: Bootstrapped
    decode: Bootstrapped
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a topology should do without interference.

    Attributes:
        shape: The topology.
        requests_per_s: Requests of the mix per second.
        limited_by: The phase that decides; None where phases share the instances.
    """

    shape: Shape
    requests_per_s: Bootstrapped
    limited_by: Literal["prefill", "decode"] | None


def predict(capacity: Capacity, shape: Shape) -> Prediction:
    """Return the prediction for one topology."""
    if shape.kind == "separated":
        return _separated(capacity, shape)
    # A mixed instance draws an answer's first token with its prompt; after a hand-off it is a decode
    # row of its own.
    share = 1.0
    if shape.kind == "mixed":
        share = (capacity.output_tokens - 1) / capacity.output_tokens

    def in_turns(prefill: Draws, decode: Draws) -> Draws:
        return shape.instances / (1 / prefill + share / decode)

    rate = derived(in_turns, capacity.prefill, capacity.decode)
    return Prediction(shape, rate, None)


def _separated(capacity: Capacity, shape: Shape) -> Prediction:
    prefill = shape.prefill * capacity.prefill.value
    decode = shape.decode * capacity.decode.value

    def slower(of_prefill: Draws, of_decode: Draws) -> Draws:
        return np.minimum(shape.prefill * of_prefill, shape.decode * of_decode)

    rate = derived(slower, capacity.prefill, capacity.decode)
    return Prediction(shape, rate, "prefill" if prefill < decode else "decode")


def predictions(capacity: Capacity, instances: int) -> list[Prediction]:
    """Return every split of so many instances, most prefill last, then all of them mixed."""
    shapes = [Shape("separated", x, instances - x) for x in range(1, instances)]
    shapes.append(Shape("mixed", instances, instances))
    return [predict(capacity, shape) for shape in shapes]


def best_split(predicted: Sequence[Prediction]) -> tuple[Prediction, float | None] | None:
    """Return the best split and in which share of the draws it is the best one.

    The share is None without intervals; the result None where there is no split.
    """
    splits = [one for one in predicted if one.shape.kind == "separated"]
    if not splits:
        return None
    best = max(splits, key=lambda one: one.requests_per_s.value)
    if not all(one.requests_per_s.draws.size for one in splits):
        return best, None
    draws = np.stack([one.requests_per_s.draws for one in splits])
    wins = draws.argmax(axis=0) == splits.index(best)
    return best, float(wins.mean())


def matched_ratio(capacity: Capacity) -> Bootstrapped:
    """Return prefill instances per decode instance at which neither waits for the other."""
    return derived(lambda prefill, decode: decode / prefill, capacity.prefill, capacity.decode)


def ratio_of(measured: Bootstrapped, prediction: Prediction) -> Bootstrapped:
    """Return measured over predicted; the two are measured in different runs, so drawn apart."""
    return derived(lambda a, b: a / b, measured, prediction.requests_per_s)
