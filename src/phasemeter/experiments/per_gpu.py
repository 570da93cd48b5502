"""Comparisons of topologies with unequal GPU counts: throughput per GPU, everything else as it is.

Tokens per second add up over GPUs, so their ratio can be put per GPU. Latencies do not: a first token
that comes in half the time on twice the GPUs is no draw. They are left alone and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from phasemeter.analysis.finding import Factor

_BETWEEN = "_vs_"


def per_gpu_name(name: str) -> str:
    """Return the name that a throughput factor has once it is put per GPU."""
    return f"{name}_per_gpu"


def normalised(factors: Iterable[Factor], gpus: Mapping[str, int | None]) -> list[Factor]:
    """Return the factors with those between topologies of unequal GPU counts put per GPU or labelled.

    Args:
        factors: Factors, those between topologies named `other_vs_first.condition.class.statistic`.
        gpus: GPUs by topology.
    """
    return [_normalised(factor, gpus) for factor in factors]


def _normalised(factor: Factor, gpus: Mapping[str, int | None]) -> Factor:
    other, between, first = factor.name.partition(".")[0].partition(_BETWEEN)
    of, against = gpus.get(other), gpus.get(first)
    if not between or not of or not against or of == against:
        return factor
    if not factor.name.endswith(".throughput"):
        labelled = f"{factor.of}, on {of} GPUs against {against}, not normalised"
        return replace(factor, of=labelled)
    scale = against / of
    return replace(
        factor,
        name=per_gpu_name(factor.name),
        value=None if factor.value is None else factor.value * scale,
        ci95=None if factor.ci95 is None else (factor.ci95[0] * scale, factor.ci95[1] * scale),
        of=f"{factor.of}, per GPU of {of}",
        against=f"{factor.against}, per GPU of {against}",
    )
