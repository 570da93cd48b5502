"""The outcome of an experiment: verdict, factors with intervals, arms, exposures. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from phasemeter.analysis.injection import Cell, Effect, injection_json
from phasemeter.analysis.ramp_levels import RampLevel, ramp_json
from phasemeter.analysis.shape import ClassSummary, Percentiles, RequestCounts, Throughput

if TYPE_CHECKING:
    from phasemeter.analysis.bootstrap import RatioInterval


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was shown, in one word and in one paragraph.

    Attributes:
        kind: `interference`, `none`, or `invalid` where nothing can be said.
        text: The paragraph, figures included.
    """

    kind: Literal["interference", "none", "invalid"]
    text: str


@dataclass(frozen=True, slots=True)
class Factor:
    """One ratio between two conditions.

    Attributes:
        name: For instance `mixed.inject.background.gap_p99`.
        value: The ratio, None where a side could not be measured.
        ci95: Its 95 % interval, None where there is none.
        of: What is compared, in words.
        against: What it is compared with, in words.
    """

    name: str
    value: float | None
    ci95: tuple[float, float] | None
    of: str
    against: str

    @classmethod
    def from_ratio(cls, name: str, ratio: RatioInterval, of: str, against: str) -> Factor:
        """Return the factor that a ratio is."""
        return cls(name, ratio.value, ratio.ci95, of, against)


@dataclass(frozen=True, slots=True)
class Arm:
    """One topology under one condition.

    Attributes:
        name: `topology/condition`, for instance `mixed/inject`.
        topology: Name of the topology.
        condition: What was done to it.
        gpus: How many accelerators (or lab engine cores) it had, None where not told.
        requests: Requests by outcome.
        metrics: Percentiles of every metric over all classes.
        classes: The same by request class.
        throughput: Rates.
        users: Users of this level of a ramp; None where the condition is no level.
    """

    name: str
    topology: str
    condition: str
    gpus: int | None
    requests: RequestCounts
    metrics: Mapping[str, Percentiles]
    classes: Mapping[str, ClassSummary]
    throughput: Throughput
    users: int | None = None


@dataclass(frozen=True, slots=True)
class Exposure:
    """One injected prompt and the longest wait of any background stream meanwhile.

    Attributes:
        arm: Name of the topology.
        prompt_tokens: Length of the injected prompt.
        longest_gap_ms: Longest background gap that overlaps [sent, first token] of the prompt.
        started_ns: Prompt sent, monotonic.
        ended_ns: First token of its answer, monotonic; the last one's of several prompts.
        together: Prompts that were injected at the same moment.
        users: Background users of the run, None where it does not tell.
        decoding: Background streams that were decoding as the first token came.
    """

    arm: str
    prompt_tokens: int
    longest_gap_ms: float
    started_ns: int
    ended_ns: int
    together: int = 1
    users: int | None = None
    decoding: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What an experiment found.

    Attributes:
        verdict: The verdict.
        factors: Ratios with their intervals.
        arms: Topologies under each condition.
        exposures: Injected prompts and what they did to the others.
        notes: Sentences on what was not shown.
        ramp: Levels of the ramp, by topology and number of users.
        cells: Injection by background users, prompt length and prompts together.
        effects: Injection by background users.
    """

    verdict: Verdict
    factors: tuple[Factor, ...] = ()
    arms: tuple[Arm, ...] = ()
    exposures: tuple[Exposure, ...] = ()
    notes: tuple[str, ...] = ()
    ramp: tuple[RampLevel, ...] = ()
    cells: tuple[Cell, ...] = ()
    effects: tuple[Effect, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the part of `phasemeter interference --json` that the analysis tells."""
        return {
            "verdict": {"kind": self.verdict.kind, "text": self.verdict.text},
            "factors": {factor.name: _factor_json(factor) for factor in self.factors},
            "arms": {arm.name: _arm_json(arm) for arm in self.arms},
            "exposures": [_exposure_json(exposure) for exposure in self.exposures],
            "cells": injection_json(self.cells),
            "effects": injection_json(self.effects),
            "notes": list(self.notes),
            "ramp": ramp_json(self.ramp),
        }


def _factor_json(factor: Factor) -> dict[str, object]:
    return {
        "value": factor.value,
        "ci95": None if factor.ci95 is None else list(factor.ci95),
        "of": factor.of,
        "against": factor.against,
    }


def _arm_json(arm: Arm) -> dict[str, object]:
    return {
        "topology": arm.topology,
        "condition": arm.condition,
        "gpus": arm.gpus,
        "requests": arm.requests,
        "metrics": dict(arm.metrics),
        "classes": dict(arm.classes),
        "throughput": arm.throughput,
    }


def _exposure_json(exposure: Exposure) -> dict[str, object]:
    return {
        "arm": exposure.arm,
        "prompt_tokens": exposure.prompt_tokens,
        "longest_gap_ms": exposure.longest_gap_ms,
        "started_ns": exposure.started_ns,
        "ended_ns": exposure.ended_ns,
        "together": exposure.together,
        "users": exposure.users,
        "decoding": exposure.decoding,
    }
