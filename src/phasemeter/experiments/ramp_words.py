"""What a ramp adds to the verdict: sentences with their figures, and what to mind when reading them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from phasemeter.analysis.finding import Factor
from phasemeter.analysis.ramp_levels import ALL, Estimate, RampLevel, peak_of


def ramp_judged(levels: Sequence[RampLevel]) -> list[str]:
    """Return the names of the factors that a verdict on a ramp alone rests on."""
    classes = _classes(levels)
    if len(levels) < 2 or not classes:
        return []
    prefix = _extremes(levels)
    return [f"{prefix}.{classes[0]}.{one}" for one in ("gap_p99", "ttft_p50")]


def ramp_compared(prefix: str, levels: Sequence[RampLevel]) -> list[tuple[str, str]]:
    """Return (factor name, words) of what the verdict compares between topologies at the most users."""
    if not levels:
        return []
    users = levels[-1].users
    compared = [
        (f"{prefix}.ramp.u{users}.{name}.{one}", f"{words} of {name} requests at {users} users")
        for name in _classes(levels)
        for one, words in (("ttft_p50", "TTFT p50"), ("gap_p99", "gap p99"))
    ]
    return [*compared, (f"{prefix}.ramp.u{users}.throughput", f"throughput at {users} users")]


def ramp_sentences(factors: Mapping[str, Factor], levels: Sequence[RampLevel]) -> list[str]:
    """Say what the most users had against the fewest, and where throughput was highest."""
    if len(levels) < 2:
        return []
    low, top = levels[0], levels[-1]
    sentences = []
    for name in _classes(levels):
        before, after = low.classes.get(name), top.classes[name]
        if before is None:
            continue
        prefix = f"{_extremes(levels)}.{name}"
        ttft = _change(before.ttft_ms["p50"], after.ttft_ms["p50"], factors[f"{prefix}.ttft_p50"])
        gap = _change(before.gap_ms["p99"], after.gap_ms["p99"], factors[f"{prefix}.gap_p99"])
        sentences.append(
            f"On {top.topology}, {_users(top)} instead of {_users(low)} took the TTFT p50 of {name} "
            f"requests {ttft}, and their gap p99 {gap}."
        )
    return [*sentences, *_peak_sentence(factors, levels)]


def ramp_notes(levels: Iterable[RampLevel], prime_s: float | None) -> tuple[str, ...]:
    """Return what to mind: what slows users in a ramp, and levels that had too little time."""
    found = list(levels)
    if not found:
        return ()
    notes = [
        "In a ramp users slow each other both by decoding in one batch and by their prompts; inject tells "
        "the two apart. Its loop is closed: no more requests wait than there are users.",
    ]
    restless = [
        f"{level.topology} at {_users(level)}"
        for level in found
        if prime_s is not None
        and (whole := level.classes.get(ALL)) is not None
        and whole.e2e_p50_ms is not None
        and whole.e2e_p50_ms > prime_s * 1000
    ]
    if restless:
        notes.append(
            f"Half of the requests took longer than the {prime_s:g} s that a level has to get going, so "
            f"it may not have settled before it was measured: {', '.join(restless)}."
        )
    failed = [f"{one.topology} at {_users(one)}" for one in found if one.ok < one.issued]
    if failed:
        notes.append(f"Not every request ended ok: {', '.join(failed)}.")
    return tuple(notes)


def times(factor: Factor) -> str:
    """Return a factor in words, with its interval."""
    if factor.value is None:
        return "a factor that could not be measured"
    return measured(factor.value, factor.ci95, "times")


def measured(value: float, ci95: tuple[float, float] | None, unit: str) -> str:
    """Return a value with its interval, for instance `12.3 times [10.1, 14.8]`."""
    if ci95 is None:
        return f"{value:.3g} {unit}, without an interval"
    lo, hi = ci95
    return f"{value:.3g} {unit} [{lo:.3g}, {hi:.3g}]"


def _peak_sentence(factors: Mapping[str, Factor], levels: Sequence[RampLevel]) -> list[str]:
    peak, top = peak_of(levels), levels[-1]
    if peak is None or peak.output_tokens_per_s.value is None:
        return []
    per_gpu = peak.output_tokens_per_s_per_gpu.value
    told = "" if per_gpu is None or peak.gpus == 1 else f" ({per_gpu:.0f} per GPU)"
    sentence = (
        f"Throughput on {peak.topology} was highest with {_users(peak)}: "
        f"{peak.output_tokens_per_s.value:.0f} output tokens/s{told}"
    )
    factor = factors.get(f"{top.topology}.ramp.u{top.users}_vs_u{peak.users}.throughput")
    if peak.users == top.users or factor is None:
        return [f"{sentence}."]
    return [f"{sentence}; with {_users(top)} it was {times(factor)} as high."]


def _change(before: Estimate, after: Estimate, factor: Factor) -> str:
    if before.value is None or after.value is None:
        return "to what could not be measured"
    return f"from {_ms(before.value)} to {_ms(after.value)} ms, {times(factor)}"


def _extremes(levels: Sequence[RampLevel]) -> str:
    return f"{levels[0].topology}.ramp.u{levels[-1].users}_vs_u{levels[0].users}"


def _classes(levels: Sequence[RampLevel]) -> list[str]:
    return [name for name in levels[-1].classes if name != ALL] if levels else []


def _users(level: RampLevel) -> str:
    return "1 user" if level.users == 1 else f"{level.users} users"


def _ms(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
