"""When a streamed answer's events are meant to leave, faults included; a pure function of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from random import Random

from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Pacing:
    """How an answer is paced; every fault is off by default.

    Attributes:
        ttft_ms: From the arrival of the request to the first event.
        ttft_spread_ms: The first event is moved by up to so much, earlier or later, evenly spread.
        gap_ms: From one event to the next.
        gap_spread_ms: Each later event is moved by up to so much, earlier or later.
        headers_ms: From the arrival of the request to the response headers.
        tokens: Length of an answer whose request sets none.
        tokens_per_event: Tokens that one event carries; the time between events stays `gap_ms`.
        clump_events: So many events are held back and leave in one write, as behind a buffering proxy.
        stall_ms: Extra silence after every `stall_every` events.
        stall_every: Events between two stalls; 0 for none.
        reset_after: The connection is reset after so many events; 0 for never.
        prompt_token_ms: Added to `ttft_ms` for each token of the prompt, as prefill is.
        prefix_cache: Prompt tokens that began an earlier prompt too cost nothing, in blocks of 16.
        tells_cached: Usage says how many prompt tokens came from that cache.
        slots: So many answers at a time; further requests wait for one to end. 0 for no limit.
        stamped: Put the time of emission (`emit_ns`) into each event.
    """

    ttft_ms: float = 200.0
    ttft_spread_ms: float = 0.0
    gap_ms: float = 20.0
    gap_spread_ms: float = 0.0
    headers_ms: float = 0.0
    tokens: int = 128
    tokens_per_event: int = 1
    clump_events: int = 1
    stall_ms: float = 0.0
    stall_every: int = 0
    reset_after: int = 0
    prompt_token_ms: float = 0.0
    prefix_cache: bool = False
    tells_cached: bool = False
    slots: int = 0
    stamped: bool = False


_AT_LEAST_1 = ("tokens", "tokens_per_event", "clump_events")


def parse_pacing(text: str, base: Pacing) -> Pacing:
    """Return `base` with the settings of `NAME=VALUE[,NAME=VALUE...]` replaced.

    Raises:
        UsageError: If a name is unknown or a value is out of range.
    """
    changes: dict[str, float | int | bool] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        changes[name] = _parse_value(name, value)
    return replace(base, **changes)  # type: ignore[arg-type]


def _parse_value(name: str, value: str) -> float | int | bool:
    kinds = {field.name: str(field.type) for field in fields(Pacing)}
    if name not in kinds:
        msg = f"pacing: unknown setting {name!r}; accepted: {', '.join(kinds)}"
        raise UsageError(msg)
    least = 1 if name in _AT_LEAST_1 else 0
    try:
        number = float(value) if kinds[name] == "float" else int(value)
    except ValueError:
        number = -1
    if not least <= number < float("inf"):
        msg = f"pacing: {name} must be a number from {least} up, got {value!r}"
        raise UsageError(msg)
    return bool(number) if kinds[name] == "bool" else number


def writes(pacing: Pacing, events: int, random: Random) -> Iterator[tuple[int, int]]:
    """Yield (offset, events) of each write: ns from the request's arrival, and how many events it has.

    Offsets do not decrease. The last write may hold fewer events than a clump.
    """
    offset_ms = pacing.ttft_ms + _spread(pacing.ttft_spread_ms, random)
    latest_ms = 0.0
    held = 0
    for number in range(1, events + 1):
        moved_ms = _spread(pacing.gap_spread_ms, random) if number > 1 else 0.0
        latest_ms = max(latest_ms, offset_ms + moved_ms)
        held += 1
        if held == pacing.clump_events or number == events:
            yield round(latest_ms * NS_PER_MS), held
            held = 0
        offset_ms += pacing.gap_ms
        if pacing.stall_every and not number % pacing.stall_every:
            offset_ms += pacing.stall_ms


def _spread(spread_ms: float, random: Random) -> float:
    return random.uniform(-spread_ms, spread_ms) if spread_ms else 0.0
