"""Settings from the environment, `PHASEMETER_*`. A value that cannot be used is one log line, no error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from phasemeter.core.errors import warn_once
from phasemeter.sinks.semconv import SEMCONVS, Semconv

DISABLED = "PHASEMETER_DISABLED"
INJECT_USAGE = "PHASEMETER_INJECT_USAGE"
RECORDS = "PHASEMETER_RECORDS"
SEMCONV = "PHASEMETER_SEMCONV"
METRIC_TAGS = "PHASEMETER_METRIC_TAGS"
PER_CHUNK_METRICS = "PHASEMETER_PER_CHUNK_METRICS"

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment asks for.

    Attributes:
        disabled: `wrap()` returns the client it is given and `instrument()` does nothing.
        inject_usage: Streams are asked for their token counts, where nobody said otherwise.
        records: File that the default Meter appends its records to; `{pid}` in it was replaced.
        semconv: Names of the OpenTelemetry metrics.
        metric_tags: Tags that become attributes of the OpenTelemetry metrics.
        per_chunk_metrics: The OpenTelemetry metrics with a sample for each chunk are recorded.
    """

    disabled: bool = False
    inject_usage: bool = False
    records: str | None = None
    semconv: Semconv = "0.1.0"
    metric_tags: tuple[str, ...] = ()
    per_chunk_metrics: bool = True


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings that the variables give; a value that is not accepted counts as unset."""
    return Settings(
        disabled=_flag(environment, DISABLED),
        inject_usage=_flag(environment, INJECT_USAGE),
        records=environment.get(RECORDS, "").replace("{pid}", str(os.getpid())) or None,
        semconv=_semconv(environment),
        metric_tags=_names(environment.get(METRIC_TAGS, "")),
        per_chunk_metrics=_flag(environment, PER_CHUNK_METRICS, default=True),
    )


def _flag(environment: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    value = environment.get(name, "").strip().lower()
    if value in (*_TRUE, *_FALSE):
        return value in _TRUE
    if value:
        accepted = ", ".join((*_TRUE, *_FALSE))
        then = "on" if default else "off"
        warn_once(f"{name}: {value!r} is not known, {then} as if unset; accepted: {accepted}")
    return default


def _semconv(environment: Mapping[str, str]) -> Semconv:
    value = environment.get(SEMCONV, "").strip()
    for known in SEMCONVS:
        if value == known:
            return known
    if value:
        accepted = ", ".join(SEMCONVS)
        warn_once(f"{SEMCONV}: {value!r} is not known, {SEMCONVS[0]} is used; accepted: {accepted}")
    return SEMCONVS[0]


def _names(value: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in value.split(",")) if name)
