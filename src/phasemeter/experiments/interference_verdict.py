"""The verdict of the interference experiment, in one word and in words that carry their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from phasemeter.analysis.finding import Factor, Verdict
from phasemeter.analysis.ramp_levels import RampLevel
from phasemeter.experiments.inject_effects import Injected
from phasemeter.experiments.inject_words import (
    RELEVANT_FACTOR,
    inject_sentences,
    interferes,
    reason_against,
)
from phasemeter.experiments.per_gpu import per_gpu_name
from phasemeter.experiments.ramp_words import ramp_compared, ramp_judged, ramp_sentences, times

MAX_FAILED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the verdict is made from.

    Attributes:
        factors: Factors by name.
        injected: What condition inject showed, by topology.
        gpus: Accelerators (or cores) by topology.
        gap_p99_ms: Background gap p99 in ms, by `topology.phase`.
        failed: Requests that did not end ok.
        issued: Requests issued.
        ramp: Levels of the ramp, fewest users first, by topology.
        per_gpu: Unequal GPU counts were accepted: throughput is compared per GPU.
        apart: Topologies that keep injected prompts and background streams on instances of their own.
    """

    factors: Mapping[str, Factor]
    injected: Mapping[str, Injected]
    gpus: Mapping[str, int | None]
    gap_p99_ms: Mapping[str, float]
    failed: int
    issued: int
    ramp: Mapping[str, Sequence[RampLevel]] = field(default_factory=dict)
    per_gpu: bool = False
    apart: frozenset[str] = frozenset()


def judge(evidence: Evidence, arms: Sequence[str]) -> Verdict:
    """Return the verdict over the first topology, with what each other one does to it."""
    reason = _reason_against(evidence, arms)
    if reason is not None:
        return Verdict("invalid", reason)
    first = arms[0]
    shown = _is_shown(evidence, first)
    if shown:
        sentences = [f"Interference was shown on {first}."]
    else:
        sentences = [f"No interference above {RELEVANT_FACTOR} times was shown on {first}."]
    for arm in arms:
        if arm in evidence.injected:
            one = evidence.injected[arm]
            sentences += inject_sentences(
                arm, one, evidence.factors, evidence.gap_p99_ms, is_apart=arm in evidence.apart
            )
        sentences.append(_mix_sentence(evidence, arm))
        sentences += ramp_sentences(evidence.factors, evidence.ramp.get(arm, ()))
    for other in arms[1:]:
        sentences += _comparison(evidence, first, other)
    return Verdict("interference" if shown else "none", " ".join(filter(None, sentences)))


def _is_shown(evidence: Evidence, arm: str) -> bool:
    """Whether interference was shown: by injection where there was one."""
    if arm in evidence.injected:
        return interferes(evidence.injected[arm])
    return any(
        factor.ci95 is not None and factor.ci95[0] > RELEVANT_FACTOR
        for factor in _judged(evidence, arm)
    )


def _judged(evidence: Evidence, arm: str) -> list[Factor]:
    """Return the factors that decide where nothing was injected: of the short class.

    Where there was only a ramp, those of its shortest class at the most users against the fewest.
    """
    short = _mix_classes(evidence, f"{arm}.together.")[:1]
    names = [
        f"{arm}.together.{name}.{one}" for name in short for one in ("gap_p99", "ttft_p50")
    ] or ramp_judged(evidence.ramp.get(arm, ()))
    return [evidence.factors[name] for name in names]


def notes_on(evidence: Evidence) -> tuple[str, ...]:
    """Return sentences on what was not shown, and on how to read the figures."""
    notes = [
        "Intervals are 95 % bootstrap intervals over blocks of half a second (gaps, throughput), over "
        "injections (what they did) or over requests (TTFT) of this one session; they say nothing "
        "about another machine, model or mix. Where samples are too few for one, there is none.",
    ]
    if evidence.per_gpu and len(set(evidence.gpus.values())) > 1:
        told = ", ".join(f"{arm} {count}" for arm, count in evidence.gpus.items())
        notes.append(
            f"The topologies have unequal GPU counts ({told}): throughput is compared per GPU; "
            "latencies are compared as they are, on unequal hardware."
        )
    if evidence.failed:
        notes.append(f"{evidence.failed} of {evidence.issued} requests did not end ok.")
    return tuple(notes)


def _reason_against(evidence: Evidence, arms: Sequence[str]) -> str | None:
    if not arms:
        return "Invalid: no condition of the experiment was completed."
    reason = reason_against(evidence.injected, arms[0], evidence.apart)
    if reason is not None:
        return reason
    if evidence.issued and evidence.failed / evidence.issued > MAX_FAILED_SHARE:
        return f"Invalid: {evidence.failed} of {evidence.issued} requests did not end ok."
    gpus = {evidence.gpus.get(arm) for arm in arms}
    if len(gpus) > 1 and not evidence.per_gpu:
        return f"Invalid: the topologies have unequal GPU counts ({evidence.gpus})."
    if arms[0] in evidence.injected:
        return None
    judged = _judged(evidence, arms[0])
    if not judged:
        return f"Invalid: no condition that can be judged was completed on {arms[0]}."
    if all(factor.value is None for factor in judged):
        return f"Invalid: there is no {_reference(evidence, judged[0])} on {arms[0]}."
    if all(factor.ci95 is None for factor in judged):
        names = ", ".join(factor.name for factor in judged)
        return f"Invalid: too few requests for an interval of what would decide ({names})."
    return None


def _reference(evidence: Evidence, judged: Factor) -> str:
    """Name what the deciding factor needs and does not have."""
    if ".ramp." in judged.name:
        return "level of the ramp to compare with"
    return "short class alone to compare with"


def _mix_sentence(evidence: Evidence, arm: str) -> str:
    """Say what the other class did to the short one, where only that can be judged."""
    if evidence.injected:
        return ""
    short = next(iter(_mix_classes(evidence, f"{arm}.together.")), None)
    if short is None:
        return ""
    changes = _list(
        [
            f"{words} {times(evidence.factors[f'{arm}.together.{short}.{one}'])}"
            for one, words in (("ttft_p50", "TTFT p50"), ("gap_p99", "gap p99"))
        ]
    )
    return f"On {arm}, {short} requests beside the other class had {changes} of that alone."


def _comparison(evidence: Evidence, first: str, second: str) -> list[str]:
    """Say for what the second topology was better, worse, and not clearly different."""
    better, worse, unclear = [], [], []
    for name, words in _compared(evidence, f"{second}_vs_{first}"):
        factor = evidence.factors[name]
        if factor.ci95 is None:
            continue
        lo, hi = factor.ci95
        lower_is_better = not name.rpartition(".")[2].startswith("throughput")
        if lo <= 1 <= hi:
            unclear.append(words)
        elif (hi < 1) == lower_is_better:
            better.append(f"{words} ({times(factor)})")
        else:
            worse.append(f"{words} ({times(factor)})")
    told = _hardware(evidence, first, second)
    sentences = []
    for label, items in (("better", better), ("worse", worse)):
        if items:
            sentences.append(f"At {told}, {second} was {label} than {first} in {_list(items)}.")
    if unclear:
        sentences.append(f"No clear difference of {second} in {_list(unclear)}.")
    return sentences


def _hardware(evidence: Evidence, first: str, second: str) -> str:
    count, other = evidence.gpus.get(first), evidence.gpus.get(second)
    if count != other:
        return f"unequal hardware ({first} {count} GPUs, {second} {other})"
    return "equal hardware, as told" if count is None else f"equal hardware ({count} each)"


def _compared(evidence: Evidence, prefix: str) -> list[tuple[str, str]]:
    """Return (factor name, words) of what the verdict compares between topologies."""
    compared = [
        (f"{prefix}.inject.background.gap_p99", "gap p99 of the streams beside injected prompts"),
        (f"{prefix}.inject.injected.ttft_p50", "TTFT p50 of the injected prompts"),
    ]
    for class_name in _mix_classes(evidence, f"{prefix}.together."):
        compared += [
            (f"{prefix}.together.{class_name}.ttft_p50", f"TTFT p50 of {class_name} requests"),
            (f"{prefix}.together.{class_name}.ttft_p90", f"TTFT p90 of {class_name} requests"),
            (f"{prefix}.together.{class_name}.gap_p99", f"gap p99 of {class_name} requests"),
        ]
    compared.append((f"{prefix}.together.all.throughput", "throughput of the mix"))
    compared += ramp_compared(prefix, next(iter(evidence.ramp.values()), ()))
    compared += [
        (per_gpu_name(name), f"{words}, per GPU")
        for name, words in compared
        if name.endswith(".throughput")
    ]
    return [(name, words) for name, words in compared if name in evidence.factors]


def _mix_classes(evidence: Evidence, prefix: str) -> list[str]:
    names = (name.split(".")[2] for name in evidence.factors if name.startswith(prefix))
    return [name for name in dict.fromkeys(names) if name != "all"]


def _list(items: Sequence[str]) -> str:
    return ", ".join(items[:-1]) + f" and {items[-1]}" if len(items) > 1 else items[0]
