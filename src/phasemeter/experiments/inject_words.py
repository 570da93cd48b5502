"""What condition inject adds to the verdict: why it may say nothing, sentences with figures, notes."""

from __future__ import annotations

from collections.abc import Container, Mapping

from phasemeter.analysis.finding import Factor
from phasemeter.analysis.injection import Effect
from phasemeter.analysis.ramp_levels import Estimate
from phasemeter.experiments.inject_effects import DEADLINE_FACTOR, MIN_INJECTIONS, Injected
from phasemeter.experiments.ramp_words import measured, times

RELEVANT_FACTOR = 1.5
"""Interference is claimed when the interval of a deciding factor lies wholly above this."""

_PACE_CHANGED = 1.25


def reason_against(
    injected: Mapping[str, Injected], first: str, apart: Container[str]
) -> str | None:
    """Return why the injections show nothing, or None where they can be judged.

    Args:
        injected: What was shown, by topology.
        first: The topology that is judged by the overlap of prompts and streams.
        apart: Topologies whose routes keep the two on different instances: without overlap a later
            one is as it should be.
    """
    for arm, one in injected.items():
        if arm in apart and arm != first and one.overlap.injections:
            continue
        if len(one.overlap.exposures) < MIN_INJECTIONS:
            return _no_overlap(arm, one)
    return _too_little(first, injected[first]) if first in injected else None


def _too_little(arm: str, one: Injected) -> str | None:
    """Return why the injections do not tell interference from none, or None where they do."""
    if one.apart < MIN_INJECTIONS:
        return (
            f"Invalid: the {len(one.overlap.exposures)} injections on {arm} ran into each other and count as "
            f"{one.apart}; at least {MIN_INJECTIONS} are needed. Inject less often; where a prompt alone is "
            "answered much faster than the next one comes, the server stood still for a while."
        )
    if not any(each.ci95 for each in one.by_length.values()):
        return (
            f"Invalid: there is too little undisturbed time of the background streams on {arm} to "
            "compare with; make the baseline longer than five injections last, or inject less often."
        )
    undecided = {
        tokens: each
        for tokens, each in one.by_length.items()
        if (each.value or 0) > RELEVANT_FACTOR
    }
    if undecided and not interferes(one):
        return (
            f"Invalid: undecided. {_longest(undecided)} That is above {RELEVANT_FACTOR}, but so few "
            "injections do not tell it from less; inject for longer, or more often repeated."
        )
    return None


def _longest(by_length: Mapping[int, Estimate]) -> str:
    told = ", ".join(
        estimated(each, "times")
        + (f" for prompts of {tokens:,} {'token' if tokens == 1 else 'tokens'}" if tokens else "")
        for tokens, each in by_length.items()
    )
    return (
        "The longest gap beside an injection, at the median against undisturbed time of the same "
        f"length: {told}."
    )


def _no_overlap(arm: str, one: Injected) -> str:
    overlapped, prompts = len(one.overlap.exposures), sum(each.injected for each in one.effects)
    number = f"only {overlapped}" if overlapped else "none"
    reason = (
        f"Invalid: no injected prompt was answered on {arm}."
        if not prompts
        else f"Invalid: {number} of {one.overlap.injections} injections on {arm} overlapped a background "
        f"stream, that is, got a first token while one was decoding on the same instance and "
        f"prompts were being injected; at least {MIN_INJECTIONS} are needed."
    )
    if one.overlap.injections and not one.overlap.shared:
        return f"{reason} Prompts and streams were on different instances."
    told = [reason]
    told += [
        f"With {effect.users} background users never more than {effect.most_streams} streams decoded "
        "at once, so the server's slots look full and injected prompts waited for one; use fewer "
        "--background-users, or a server with more slots."
        for effect in one.effects
        if effect.users is not None and effect.most_streams <= effect.users
    ]
    slow = [
        f"{cell.ttft_p50_ms:,.0f} ms against {cell.ttft_alone_p50_ms:,.0f} ms alone"
        for cell in one.cells
        if cell.ttft_p50_ms is not None and cell.ttft_alone_p50_ms is not None
    ]
    if slow:
        told.append(f"Their median time to first token was {slow[-1]}.")
    return " ".join(told)


def interferes(one: Injected) -> bool:
    """Whether prompts of any length stretched the longest gap beside them relevantly."""
    return any(
        each.ci95 is not None and each.ci95[0] > RELEVANT_FACTOR for each in one.by_length.values()
    )


def inject_sentences(
    arm: str,
    one: Injected,
    factors: Mapping[str, Factor],
    gap_p99_ms: Mapping[str, float],
    *,
    is_apart: bool,
) -> list[str]:
    """Say what injected prompts did to the streams beside them."""
    sentences = []
    factor = factors[f"{arm}.inject.background.gap_p99"]
    before, after = (gap_p99_ms.get(f"{arm}.{phase}") for phase in ("baseline", "inject"))
    longest = [each.longest_gap_ms for each in one.overlap.exposures]
    if before is not None and after is not None and (longest or is_apart):
        waits = (
            f"the longest wait was {max(longest):.0f} ms" if longest else "they shared no instance"
        )
        sentences.append(
            f"On {arm}, injecting prompts took the gap p99 of the streams beside them from "
            f"{before:.1f} to {after:.1f} ms, {times(factor)}; {waits}."
        )
    shown = {tokens: each for tokens, each in one.by_length.items() if each.value is not None}
    if shown:
        sentences.append(_longest(shown))
    for effect in one.effects:
        if effect.lost_ms_per_prompt_token.value is not None:
            each = "each stream" if effect.users is None else f"each of {effect.users} streams"
            lost = estimated(effect.lost_ms_per_prompt_token, "ms")
            sentences.append(f"A prompt token cost {each} {lost} of decode time.")
    return sentences


def inject_notes(
    injected: Mapping[str, Injected], apart: Container[str], prime_s: float | None
) -> list[str]:
    """Return how to read the figures of injection, and how much overlap was achieved."""
    if not injected:
        return []
    notes = [
        "A gap counts as exposed when it overlaps the time from an injected prompt's sending to its "
        "first token; that time holds the prompt's queue too. An injection counts as overlapped when "
        "background streams were decoding as its first token came.",
        "Intervals by prompt length are widened so that 95 % holds for all lengths together. "
        f"Deadlines are {DEADLINE_FACTOR:g} times the baseline's median gap, with slack carried over.",
    ]
    if prime_s is not None:
        notes.append(
            f"Not measured: the first {prime_s:g} s of each run, in which the background gets going, and "
            "the answers that were still under way after its last phase, which are let run out."
        )
    for arm, one in injected.items():
        for effect in one.effects:
            notes.append(_overlap_note(arm, effect))
            notes += _pace_note(arm, effect)
        if arm in apart:
            notes.append(
                f"{arm} sends injected prompts and background streams to different instances, so no "
                "gap can be exposed there."
            )
    return notes


def _overlap_note(arm: str, effect: Effect) -> str:
    users = "" if effect.users is None else f" with {effect.users} background users"
    decoding = effect.decoding.get("inject")
    told = "" if decoding is None else f", {decoding:.1f} of them decoding on average"
    share = "" if effect.exposed_share is None else f"; {effect.exposed_share:.0%} of gaps exposed"
    stalls = effect.stalls["inject"].length_ms.count
    return (
        f"{arm}{users}{told}: {effect.overlapped} of {effect.injections} injections overlapped{share}; "
        f"{stalls:,} gaps were stalls."
    )


def _pace_note(arm: str, effect: Effect) -> list[str]:
    if effect.pace is None or 1 / _PACE_CHANGED < effect.pace < _PACE_CHANGED:
        return []
    users = "" if effect.users is None else f" with {effect.users} background users"
    return [
        f"{arm}{users} changed its pace by itself: gaps outside of injections were {effect.pace:.2f} times as "
        "long as in the baseline. Factors against the baseline, and lost_share, hold that too; the longest "
        "gap beside an injection is compared with the time between injections and does not."
    ]


def estimated(estimate: Estimate, unit: str) -> str:
    """Return an estimate in words, with its interval."""
    if estimate.value is None:
        return "unknown"
    return measured(estimate.value, estimate.ci95, unit)
