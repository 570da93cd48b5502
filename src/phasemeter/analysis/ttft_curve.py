"""What prefill takes on a server by length of the prompt, measured with prompts that it had not seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Outcome, Timeline


@dataclass(frozen=True, slots=True)
class TtftCurve:
    """`ttft_wire` as a straight line over the prompt's length.

    Attributes:
        base_ms: Of an empty prompt.
        per_token_ms: More for each token.
    """

    base_ms: float
    per_token_ms: float

    def at_ms(self, prompt_tokens: int) -> float:
        """Return the time to first token of a prompt."""
        return self.base_ms + self.per_token_ms * prompt_tokens

    def to_json(self) -> dict[str, float]:
        """Return the curve for a run's manifest."""
        return asdict(self)


def fit_ttft_curve(timelines: Sequence[Timeline]) -> TtftCurve | None:
    """Fit the medians at each prompt length of a run whose prompts were new to the server.

    Returns:
        The line of least squares; None with fewer than two lengths, or where longer prompts do not
        take longer.
    """
    waits_ms: dict[int, list[float]] = defaultdict(list)
    for timeline in timelines:
        told = prompt_and_wait(timeline)
        if told is not None:
            waits_ms[told[0]].append(told[1])
    if len(waits_ms) < 2:
        return None
    lengths = list(waits_ms)
    per_token_ms, base_ms = np.polyfit(lengths, [median(waits_ms[n]) for n in lengths], 1).tolist()
    return TtftCurve(base_ms, per_token_ms) if per_token_ms > 0 else None


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
