"""How long requests waited in the server's queue, as an interval, from the client's clock alone.

Upper bound: what the first token took longer than that of an equal prompt on the idle server. Nothing but
that excess can have been queue; the rest of it is steps that were shared with others. It did not last beyond
the begin of the step of the first token either, or of the fewest steps that the token budget allows.
Lower bound: the prompt's own chunks are the last steps before its first token, at most as many as the token
budget allows; and the engine had seen the request when the step had ended that was under way as it came
in. What lies between is neither prefill nor the way to the engine: it is queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasemeter.analysis.calibration import Calibration
from phasemeter.analysis.chunks import TokenBudget, prompt_tokens_of
from phasemeter.analysis.engine_steps import EngineSteps
from phasemeter.analysis.samples import class_of
from phasemeter.analysis.shape import QueueClass, QueueSummary, Spread
from phasemeter.analysis.steps import UNKNOWN_NS, StepSeries
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Outcome, Timeline

if TYPE_CHECKING:
    import numpy.typing as npt

Basis = Literal["steps", "none"]

SERVER_QUEUE = "queue_time_ms"
"""Name under which vLLM and the lab engine tell their own queue time."""


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """The queue of one request.

    Attributes:
        request_id: The request.
        class_name: Its class.
        ttft_ns: Its `ttft_wire`.
        lower_ns: It waited at least so long.
        upper_ns: It waited at most so long.
        basis: What the lower bound comes from: `steps`, or `none` where it is 0 because the steps or the
            token budget could not be told.
        told_ns: What the server says; None where it does not.
    """

    request_id: str
    class_name: str
    ttft_ns: int
    lower_ns: int
    upper_ns: int
    basis: Basis
    told_ns: int | None

    @property
    def holds_told(self) -> bool | None:
        """Whether the server's own figure lies within; None where it tells none."""
        return None if self.told_ns is None else self.lower_ns <= self.told_ns <= self.upper_ns


def queue_bounds(engines: Sequence[EngineSteps], calibration: Calibration) -> list[QueueBounds]:
    """Return the bounds of every ok response whose prompt length and sending are known.

    Requests that went through several instances are left out: their first token is another engine's.

    Args:
        engines: `steps_of` the run.
        calibration: Of the idle server.
    """
    bounds = []
    for engine in engines:
        own = engine.budget
        budget = own if isinstance(own, TokenBudget) else calibration.token_budget
        for timeline in engine.timelines:
            one = _bounds(timeline, engine, budget, calibration)
            if one is not None:
                bounds.append(one)
    return bounds


def summarise_queues(bounds: Sequence[QueueBounds]) -> QueueSummary:
    """Return the percentiles of both bounds by class, and how they compare with the server's word."""
    classes: dict[str, list[QueueBounds]] = defaultdict(list)
    for one in bounds:
        classes[one.class_name].append(one)
    told = [one.holds_told for one in bounds if one.holds_told is not None]
    return QueueSummary(
        label="inferred",
        classes={name: _class(members) for name, members in sorted(classes.items())},
        server_told=len(told),
        server_within=sum(told),
    )


def _class(members: Sequence[QueueBounds]) -> QueueClass:
    lower_ns, upper_ns, ttft_ns = (
        np.array([getattr(one, name) for one in members], dtype=np.int64)
        for name in ("lower_ns", "upper_ns", "ttft_ns")
    )
    return QueueClass(
        requests=len(members),
        with_steps=sum(one.basis == "steps" for one in members),
        lower=_spread(lower_ns),
        upper=_spread(upper_ns),
        width_share_p50=float(np.median((upper_ns - lower_ns) / np.maximum(ttft_ns, 1))),
    )


def _spread(values_ns: npt.NDArray[np.int64]) -> Spread:
    p50, p90, most = (
        np.quantile(values_ns, (0.5, 0.9, 1.0), method="inverted_cdf") / NS_PER_MS
    ).tolist()
    return Spread(p50=p50, p90=p90, max=most, unit="ms")


def _bounds(
    timeline: Timeline,
    engine: EngineSteps,
    budget: TokenBudget | None,
    calibration: Calibration,
) -> QueueBounds | None:
    tokens, sent_ns, first_ns = (
        prompt_tokens_of(timeline),
        timeline.sent_ns,
        timeline.first_token_ns,
    )
    if timeline.outcome is not Outcome.OK or timeline.legs:
        return None
    if not tokens or sent_ns is None or first_ns is None:
        return None
    ttft_ns = first_ns - sent_ns
    idle_ms = calibration.fastest.at_ms(tokens) - calibration.fit_error_ms
    upper_ns = max(ttft_ns - round(idle_ms * NS_PER_MS), 0)
    lower_ns: int | None = None
    if isinstance(engine.series, StepSeries):
        arrived_ns = sent_ns + round(calibration.typical.base_ms * NS_PER_MS)
        own = _OwnSteps.of(engine.series, tokens, arrived_ns, first_ns, budget)
        if own is not None:
            lower_ns = own.lower_ns
            upper_ns = min(upper_ns, own.latest_start_ns - sent_ns)
    told_ms = timeline.server.get(SERVER_QUEUE)
    return QueueBounds(
        request_id=timeline.request_id,
        class_name=class_of(timeline.tags),
        ttft_ns=ttft_ns,
        lower_ns=min(lower_ns or 0, upper_ns),
        upper_ns=upper_ns,
        basis="none" if lower_ns is None else "steps",
        told_ns=None if told_ms is None else round(told_ms * NS_PER_MS),
    )


@dataclass(frozen=True, slots=True)
class _OwnSteps:
    """Between which instants a prompt's own steps began.

    Attributes:
        lower_ns: From when the engine must have seen the request to the earliest such instant; None where
            the token budget is not known.
        latest_start_ns: The latest such instant.
    """

    lower_ns: int | None
    latest_start_ns: int

    @classmethod
    def of(
        cls,
        series: StepSeries,
        tokens: int,
        arrived_ns: int,
        first_ns: int,
        budget: TokenBudget | None,
    ) -> _OwnSteps | None:
        """Return them; None where the first token came in the first step seen."""
        ends_ns = series.ends_ns
        last, seen = series.step_of(first_ns), series.step_of(arrived_ns) + 1
        if last < max(seen, 1):
            return None
        decodes = series.decodes[seen : last + 1]
        most = _most_chunks(tokens, int(decodes.max()), budget)
        least = _least_chunks(tokens, int(decodes.min()), budget)
        lower_ns = None
        if most is not None:
            lower_ns = max(int(ends_ns[max(last - most, 0)] - ends_ns[seen]), 0)
        return cls(lower_ns, _latest_start_ns(series, last, least, first_ns))


def _latest_start_ns(series: StepSeries, last: int, steps: int, first_ns: int) -> int:
    """Return when the last so many steps had begun for sure, or the first token where that is unknown."""
    begin = last + 1 - steps
    if begin < 1 or (series.durations_ns[begin : last + 1] == UNKNOWN_NS).any():
        return first_ns
    # A step ends with its tokens' way to the client; the next one begins at most a usual step later.
    return min(int(series.ends_ns[begin - 1] + np.median(series.known_ns)), first_ns)


def _most_chunks(tokens: int, beside: int, budget: TokenBudget | None) -> int | None:
    """Return the most steps that a prompt of so many tokens can have been in.

    With the least budget that fits, and one step more since the first chunk may get what another
    prompt leaves of a step. Where no prompt was ever cut, those that fit a step are taken to be whole.
    """
    if budget is None:
        return None
    if budget.at_most is None and tokens + beside <= budget.at_least:
        return 1
    room = budget.at_least - beside
    return None if room < 1 else -(-tokens // room) + 1


def _least_chunks(tokens: int, beside: int, budget: TokenBudget | None) -> int:
    """Return the fewest steps that a prompt of so many tokens can have been in."""
    if budget is None or budget.at_most is None:
        return 1
    return -(-tokens // max(budget.at_most - beside, 1))
