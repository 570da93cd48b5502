"""The verdict of the interference experiment, in one word and in words that carry their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasemeter.analysis.finding import Factor, Verdict
from phasemeter.experiments.exposure import Overlap

RELEVANT_FACTOR = 1.5
"""Interference is claimed when the interval of the gap p99 factor lies wholly above this."""

MIN_GAPS = 200
"""Fewer background gaps under injection than this carry no 99th percentile."""

MAX_FAILED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the verdict is made from.

    Attributes:
        factors: Factors by name.
        overlaps: How far injections and background overlapped, by topology.
        gpus: Accelerators (or cores) by topology.
        gap_p99_ms: Background gap p99 in ms, by `topology.phase`.
        failed: Requests that did not end ok.
        issued: Requests issued.
    """

    factors: Mapping[str, Factor]
    overlaps: Mapping[str, Overlap]
    gpus: Mapping[str, int | None]
    gap_p99_ms: Mapping[str, float]
    failed: int
    issued: int


def judge(evidence: Evidence, arms: Sequence[str]) -> Verdict:
    """Return the verdict over the first topology, with what the second one does to it."""
    reason = _reason_against(evidence, arms)
    if reason is not None:
        return Verdict("invalid", reason)
    first = arms[0]
    main = evidence.factors[f"{first}.inject.background.gap_p99"]
    interferes = main.ci95 is not None and main.ci95[0] > RELEVANT_FACTOR
    sentences = [_inject_sentence(evidence, arm) for arm in arms]
    if len(arms) == 2:
        sentences += _comparison(evidence, arms)
    if not interferes:
        sentences.insert(
            0, f"No interference above a factor of {RELEVANT_FACTOR} was shown on {first}."
        )
    return Verdict("interference" if interferes else "none", " ".join(filter(None, sentences)))


def notes_on(evidence: Evidence, arms: Sequence[str]) -> tuple[str, ...]:
    """Return sentences on what was not shown, and on how to read the figures."""
    notes = [
        "A gap counts as exposed when it overlaps the time from an injected prompt's sending to its "
        "first token; that time holds the prompt's queue too.",
        "Intervals are 95 % bootstrap intervals over blocks of one second (gaps, throughput) or over "
        "requests (TTFT) of this one session; they say nothing about another machine, model or mix.",
    ]
    for arm in arms:
        overlap = evidence.overlaps[arm]
        if overlap.exposed_share is not None:
            notes.append(
                f"{arm}: {overlap.exposed_share:.0%} of {overlap.gaps} background gaps under "
                f"injection were exposed to one of {overlap.injections} prompts; "
                f"{overlap.stalls} gaps were stalls."
            )
    unclear = [
        factor.name
        for factor in evidence.factors.values()
        if factor.ci95 is not None and factor.ci95[0] <= 1 <= factor.ci95[1]
    ]
    if unclear:
        notes.append(f"Not told apart from no effect: {', '.join(unclear)}.")
    if evidence.failed:
        notes.append(f"{evidence.failed} of {evidence.issued} requests did not end ok.")
    return tuple(notes)


def _reason_against(evidence: Evidence, arms: Sequence[str]) -> str | None:
    if not arms:
        return "Invalid: no condition of the experiment was completed."
    if evidence.issued and evidence.failed / evidence.issued > MAX_FAILED_SHARE:
        return f"Invalid: {evidence.failed} of {evidence.issued} requests did not end ok."
    gpus = {evidence.gpus.get(arm) for arm in arms}
    if len(gpus) > 1:
        return f"Invalid: the topologies have unequal GPU counts ({evidence.gpus})."
    for arm in arms:
        overlap = evidence.overlaps[arm]
        if overlap.gaps < MIN_GAPS:
            return (
                f"Invalid: only {overlap.gaps} background gaps under injection on {arm}; "
                f"at least {MIN_GAPS} are needed."
            )
        if not overlap.exposures:
            return f"Invalid: no injected prompt overlapped a background stream on {arm}."
    if evidence.factors[f"{arms[0]}.inject.background.gap_p99"].value is None:
        return f"Invalid: there is no baseline of the background streams on {arms[0]}."
    return None


def _inject_sentence(evidence: Evidence, arm: str) -> str:
    factor = evidence.factors[f"{arm}.inject.background.gap_p99"]
    before, after = (evidence.gap_p99_ms.get(f"{arm}.{phase}") for phase in ("baseline", "inject"))
    longest = max(one.longest_gap_ms for one in evidence.overlaps[arm].exposures)
    if before is None or after is None:
        return ""
    return (
        f"On {arm}, injected prompts changed the gap p99 of the streams beside them from "
        f"{before:.1f} to {after:.1f} ms ({_times(factor)}); the longest wait was {longest:.0f} ms."
    )


def _comparison(evidence: Evidence, arms: Sequence[str]) -> list[str]:
    first, second = arms
    gpus = evidence.gpus.get(first)
    count = f"the same {gpus} GPUs or cores" if gpus else "equal hardware, as told"
    sentences = [f"Against {first}, {second} on {count}:"]
    prefix = f"{second}_vs_{first}.together"
    parts = []
    for class_name in _classes(evidence, prefix):
        named = {
            "TTFT p50": f"{prefix}.{class_name}.ttft_p50",
            "TTFT p99": f"{prefix}.{class_name}.ttft_p99",
            "gap p99": f"{prefix}.{class_name}.gap_p99",
            "throughput": f"{prefix}.{class_name}.throughput",
        }
        figures = [
            f"{words} {_times(evidence.factors[name])}"
            for words, name in named.items()
            if evidence.factors[name].value is not None
        ]
        if figures:
            parts.append(f"{class_name} requests in the mix had {', '.join(figures)}")
    return [*sentences, "; ".join(parts) + "."] if parts else []


def _classes(evidence: Evidence, prefix: str) -> list[str]:
    names = (name.split(".")[2] for name in evidence.factors if name.startswith(prefix + "."))
    return list(dict.fromkeys(names))


def _times(factor: Factor) -> str:
    if factor.value is None:
        return "not measured"
    if factor.ci95 is None:
        return f"x {factor.value:.2f}, no interval"
    lo, hi = factor.ci95
    return f"x {factor.value:.2f} [{lo:.2f}, {hi:.2f}]"
