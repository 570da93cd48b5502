"""What prefill takes on a server by length of the prompt, measured with prompts that it had not seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median

import numpy as np

from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Outcome, Timeline

_LENGTHS_FOR_A_SQUARE = 4


@dataclass(frozen=True, slots=True)
class TtftCurve:
    """`ttft_wire` over the prompt's length: base + per_token T + per_token_squared T^2, none below 0.

    Attributes:
        base_ms: Of an empty prompt: network, the server's work around the engine, and about one step.
        per_token_ms: More for each token.
        per_token_squared_ms: More for each pair of tokens, from attention.
    """

    base_ms: float
    per_token_ms: float
    per_token_squared_ms: float = 0.0

    def at_ms(self, prompt_tokens: int) -> float:
        """Return the time to first token of a prompt."""
        per_token_ms = self.per_token_ms + self.per_token_squared_ms * prompt_tokens
        return self.base_ms + per_token_ms * prompt_tokens

    def to_json(self) -> dict[str, float]:
        """Return the curve for a run's manifest."""
        return asdict(self)


def fit_ttft_curve(
    timelines: Sequence[Timeline], of: Callable[[Sequence[float]], float] = median
) -> TtftCurve | None:
    """Fit one figure of each prompt length of a run whose prompts were new to the server.

    Least squares of the relative errors, coefficients not below 0; the square is fitted from four
    lengths on.

    Args:
        timelines: The responses.
        of: What is fitted: the median of each length, or `min`.

    Returns:
        The curve; None with fewer than two lengths, or where longer prompts do not take longer.
    """
    waits_ms = waits_by_length(timelines)
    if len(waits_ms) < 2:
        return None
    lengths = np.array(list(waits_ms), dtype=np.float64)
    figures_ms = np.array([of(waits_ms[tokens]) for tokens in waits_ms])
    degree = 2 if len(waits_ms) >= _LENGTHS_FOR_A_SQUARE else 1
    columns = np.stack([lengths**power for power in range(degree + 1)], axis=1)
    base, per_token, *squared = _not_negative(columns / figures_ms[:, None])
    curve = TtftCurve(base, per_token, *squared)
    return curve if curve.per_token_ms > 0 or curve.per_token_squared_ms > 0 else None


def _not_negative(columns: np.ndarray) -> list[float]:
    """Return the coefficients, none below 0, that bring the rows' sums nearest to 1.

    With so few columns the best set of those above 0 is found by trying all.
    """
    scale = np.abs(columns).max(axis=0)
    scaled = columns / scale
    number = columns.shape[1]
    best, least = np.zeros(number), float(len(columns))
    for size in range(1, number + 1):
        for used in combinations(range(number), size):
            found = np.linalg.lstsq(scaled[:, used], np.ones(len(columns)), rcond=None)[0]
            error = float(((scaled[:, used] @ found - 1) ** 2).sum())
            if (found >= 0).all() and error < least:
                best, least = np.zeros(number), error
                best[list(used)] = found
    coefficients: list[float] = (best / scale).tolist()
    return coefficients


def waits_by_length(timelines: Sequence[Timeline]) -> dict[int, list[float]]:
    """Return `ttft_wire` in ms of the ok responses by their prompt tokens, in order of these."""
    waits_ms: dict[int, list[float]] = defaultdict(list)
    for timeline in timelines:
        told = prompt_and_wait(timeline)
        if told is not None:
            waits_ms[told[0]].append(told[1])
    return dict(sorted(waits_ms.items()))


def prompt_and_wait(timeline: Timeline) -> tuple[int, float] | None:
    """Return a response's prompt tokens and `ttft_wire` in ms; None where it does not tell them."""
    tokens = timeline.usage.input_tokens
    if timeline.outcome is not Outcome.OK or not tokens:
        return None
    if timeline.sent_ns is None or timeline.first_token_ns is None:
        return None
    return tokens, (timeline.first_token_ns - timeline.sent_ns) / NS_PER_MS


def curve_of(manifest: Mapping[str, object]) -> TtftCurve | None:
    """Return the curve that a run was given, None where it was given none."""
    told = manifest.get("ttft_curve")
    try:
        return TtftCurve(**told) if isinstance(told, Mapping) else None
    except TypeError:
        return None
