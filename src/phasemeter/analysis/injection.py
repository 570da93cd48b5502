"""What injected prompts did to the streams beside them, as plain values: by cell of the grid, and in all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from phasemeter.analysis.ramp_levels import Estimate
from phasemeter.core.clock import NS_PER_MS

if TYPE_CHECKING:
    import numpy.typing as npt

_MOST_POINTS = 100


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of lengths in ms; all None without any.

    Attributes:
        count: How many.
        p50: Median, nearest rank.
        p99: 99th percentile.
        max: The longest.
    """

    count: int
    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the grid, over all repeats: background users x prompt length x prompts together.

    Attributes:
        arm: Name of the topology.
        users: Background users, None where the run does not tell.
        prompt_tokens: Length of each injected prompt.
        together: Prompts injected at the same moment.
        injections: Injections whose prompts got a first token.
        overlapped: Those whose prefill shared the engine with background streams for sure.
        exposed_gap_ms: Background gaps that overlap [sent, first token] of an injection.
        baseline_gap_ms: Gaps of the same streams before.
        recovery_gap_ms: Gaps of the same streams after.
        longest_gap_p50_ms: Median over injections of the longest exposed gap.
        undisturbed: Where the spans are that these are compared with: `between` injections, or `before`
            them, in the baseline; None where there are none.
        longest_gap_factor: The same against undisturbed spans as long.
        exposed_gap_p99_factor: p99 of the exposed gaps against gaps in undisturbed spans as long.
        ttft_p50_ms: Median time from sent to first token of the injected prompts.
        ttft_alone_p50_ms: The same of such prompts with nothing beside them, None where not measured.
        ttft_factor: Their ratio.
    """

    arm: str
    users: int | None
    prompt_tokens: int
    together: int
    injections: int
    overlapped: int
    exposed_gap_ms: Spread
    baseline_gap_ms: Spread
    recovery_gap_ms: Spread
    longest_gap_p50_ms: float | None
    undisturbed: Literal["between", "before"] | None
    longest_gap_factor: Estimate
    exposed_gap_p99_factor: Estimate
    ttft_p50_ms: float | None
    ttft_alone_p50_ms: float | None
    ttft_factor: Estimate


@dataclass(frozen=True, slots=True)
class Stalls:
    """Background gaps longer than five times their stream's own median, in one phase.

    Attributes:
        length_ms: Their lengths.
        share_of_gaps: Their share of all gaps of the phase, None without gaps.
        curve_ms: Lengths at evenly spaced ranks, ascending, for an ECDF.
    """

    length_ms: Spread
    share_of_gaps: float | None
    curve_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long after an injection's first token the gaps beside it are back in the baseline band.

    Attributes:
        band_ms: Upper end of the band: the longest that a gap may be; None without a baseline.
        followed: Injections that overlapped and had time to be followed.
        not_recovered: Those of them not over before the next injection or the end of recovery.
        steps_p50: Median of the gaps above the band that a stream had after the first token.
        steps_max: The most of them.
        ms_p50: Median of the time until the first gap within the band began.
        ms_max: The longest.
    """

    band_ms: float | None
    followed: int
    not_recovered: int
    steps_p50: float | None
    steps_max: float | None
    ms_p50: float | None
    ms_max: float | None


@dataclass(frozen=True, slots=True)
class Effect:
    """All injections beside one number of background users on a topology.

    Attributes:
        arm: Name of the topology.
        users: Background users asked for, None where the run does not tell.
        decoding: Background streams that really were decoding on average, by phase.
        most_streams: Most streams of any kind that were decoding at once.
        injected: Prompts that were injected.
        injections: Injections whose prompts got a first token.
        overlapped: Those whose prefill shared the engine with background streams for sure.
        exposed_share: Share of the background's gaps that was exposed to one of those.
        lost_ms_per_prompt_token: Decode time that each stream lost per token of an injected prompt.
        lost_from: `slope` over several lengths, or `ratio` where all were equally long.
        lost_share: Share of its decode time that a stream lost while prompts were injected.
        pace: Median gap outside of injections, in their phase, over the baseline's: other than 1 where the
            server became slower or faster by itself. None without either.
        stalls: Stalls by phase.
        gap_deadline_ms: Deadline of each token after the one before: twice the baseline's median gap.
        deadlines_missed: Share of these deadlines missed, by phase; slack carries over (fluidity).
        recovery: How long the effect lasted.
    """

    arm: str
    users: int | None
    decoding: Mapping[str, float | None]
    most_streams: int
    injected: int
    injections: int
    overlapped: int
    exposed_share: float | None
    lost_ms_per_prompt_token: Estimate
    lost_from: str | None
    lost_share: Estimate
    pace: float | None
    stalls: Mapping[str, Stalls]
    gap_deadline_ms: float | None
    deadlines_missed: Mapping[str, float | None]
    recovery: Recovery


def spread_of(lengths_ns: npt.NDArray[np.int64]) -> Spread:
    """Return the percentiles of lengths in ns."""
    if not lengths_ns.size:
        return Spread(0, None, None, None)
    p50, p99 = np.quantile(lengths_ns, (0.5, 0.99), method="inverted_cdf")
    return Spread(
        int(lengths_ns.size),
        float(p50) / NS_PER_MS,
        float(p99) / NS_PER_MS,
        float(lengths_ns.max()) / NS_PER_MS,
    )


def stalls_of(lengths_ns: npt.NDArray[np.int64], gaps: int) -> Stalls:
    """Return stalls of given lengths in ns, out of so many gaps."""
    ordered = np.sort(lengths_ns)
    points = min(ordered.size, _MOST_POINTS)
    ranks = np.ceil(np.arange(1, points + 1) * ordered.size / max(points, 1)).astype(int) - 1
    return Stalls(
        spread_of(ordered),
        ordered.size / gaps if gaps else None,
        tuple(round(length_ns / NS_PER_MS, 4) for length_ns in ordered[ranks].tolist()),
    )


def injection_json(values: Iterable[Cell | Effect]) -> list[dict[str, object]]:
    """Return the JSON form, keys as the fields are named."""
    return [asdict(value) for value in values]
