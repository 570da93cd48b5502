"""What a server takes when it does nothing else: first tokens by prompt length, steps by streams.

Made from a run of `phasemeter calibrate`, or from any run with prompts of several lengths that were new to
an idle server; kept in the manifest of the runs that are judged by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

from phasemeter.analysis.chunks import TokenBudget
from phasemeter.analysis.engine_steps import EngineSteps, steps_of
from phasemeter.analysis.records import RunRecords
from phasemeter.analysis.ttft_curve import TtftCurve, fit_ttft_curve, waits_by_length
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Timeline

PROMPTS, DECODE, BESIDE = "prompts", "decode", "beside"
"""Conditions of a calibration: prompts one at a time, streams without prompts, prompts beside streams."""


@dataclass(frozen=True, slots=True)
class PromptLength:
    """Prompts of one length, one at a time.

    Attributes:
        prompt_tokens: Their length.
        requests: How many.
        min_ms: Least `ttft_wire`.
        p50_ms: Median.
        max_ms: Greatest.
    """

    prompt_tokens: int
    requests: int
    min_ms: float
    p50_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """Steps with so many streams and no prompt.

    Attributes:
        streams: Streams at a time.
        step_ms: Median of their gaps.
        gaps: How many.
    """

    streams: int
    step_ms: float
    gaps: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known of an idle server.

    Attributes:
        typical: Curve through the medians of `ttft_wire`.
        fastest: Curve through the minima.
        fit_error_ms: Largest distance of a minimum from the curve through them.
        prompts: What the curves were fitted to.
        decode: Steps by number of streams; empty where none were measured.
        token_budget: Tokens a step, or None where that could not be told.
        connect_ms: Least time to connect (TLS included), None where not measured.
        round_trip_ms: Least time of a request that needs no engine, None where not measured.
    """

    typical: TtftCurve
    fastest: TtftCurve
    fit_error_ms: float
    prompts: tuple[PromptLength, ...]
    decode: tuple[DecodeStep, ...] = ()
    token_budget: TokenBudget | None = None
    connect_ms: float | None = None
    round_trip_ms: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return it for a manifest or a report."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, object]) -> Calibration:
        """Return what `to_json` gave.

        Raises:
            TypeError, KeyError: If it is none.
        """
        budget = told["token_budget"]
        return cls(
            typical=TtftCurve(**_mapping(told["typical"])),
            fastest=TtftCurve(**_mapping(told["fastest"])),
            fit_error_ms=float(str(told["fit_error_ms"])),
            prompts=tuple(PromptLength(**_mapping(one)) for one in _sequence(told["prompts"])),  # type: ignore[arg-type]
            decode=tuple(DecodeStep(**_mapping(one)) for one in _sequence(told["decode"])),  # type: ignore[arg-type]
            token_budget=None if budget is None else TokenBudget(**_mapping(budget)),  # type: ignore[arg-type]
            connect_ms=_number(told["connect_ms"]),
            round_trip_ms=_number(told["round_trip_ms"]),
        )


def calibration_from(run: RunRecords, engines: Sequence[EngineSteps]) -> Calibration | None:
    """Return what a run tells of the idle server; None where it has not prompts of two lengths.

    Args:
        run: A calibration, or another run with prompts that were new to an idle server.
        engines: `steps_of(run)`.
    """
    alone = [t for t in run.timelines if t.tags.get("condition", PROMPTS) == PROMPTS]
    typical, fastest = fit_ttft_curve(alone), fit_ttft_curve(alone, min)
    if typical is None or fastest is None:
        return None
    prompts = tuple(
        PromptLength(tokens, len(waits), min(waits), median(waits), max(waits))
        for tokens, waits in waits_by_length(alone).items()
    )
    beside = tuple(t for t in run.timelines if t.tags.get("condition") == BESIDE)
    if beside:
        engines = steps_of(replace(run, timelines=beside))
    budgets = [one.budget for one in engines if isinstance(one.budget, TokenBudget)]
    measured = run.manifest.get("network")
    network = measured if isinstance(measured, Mapping) else {}
    return Calibration(
        typical=typical,
        fastest=fastest,
        fit_error_ms=max(abs(fastest.at_ms(one.prompt_tokens) - one.min_ms) for one in prompts),
        prompts=prompts,
        decode=_decode_steps(run.timelines),
        token_budget=budgets[0] if len(budgets) == 1 else None,
        connect_ms=_number(network.get("connect_ms")),
        round_trip_ms=_number(network.get("round_trip_ms")),
    )


def calibration_of(manifest: Mapping[str, object]) -> Calibration | None:
    """Return the calibration that a run was given, None where it was given none."""
    told = manifest.get("calibration")
    try:
        return Calibration.from_json(told) if isinstance(told, Mapping) else None
    except (TypeError, KeyError, ValueError):
        return None


def _decode_steps(timelines: Sequence[Timeline]) -> tuple[DecodeStep, ...]:
    gaps_ns: dict[int, list[int]] = {}
    for timeline in timelines:
        if timeline.tags.get("condition") == DECODE:
            gaps_ns.setdefault(int(timeline.tags["streams"]), []).extend(timeline.gaps_ns())
    return tuple(
        DecodeStep(streams, median(gaps) / NS_PER_MS, len(gaps))
        for streams, gaps in sorted(gaps_ns.items())
        if gaps
    )


def _mapping(value: object) -> Mapping[str, float]:
    if not isinstance(value, Mapping):
        msg = f"expected an object, got {type(value).__name__}"
        raise TypeError(msg)
    return value


def _sequence(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        msg = f"expected a list, got {type(value).__name__}"
        raise TypeError(msg)
    return value


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
