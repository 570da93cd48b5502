"""What the observations of the scenarios say about a tool; pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from benchmarks.sdk_observed import Observed
from benchmarks.sdk_scenarios import EXITS, Scenario

_FIRST_METRICS = (
    "gen_ai.client.inference.time_to_first_chunk",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.server.time_to_first_token",
)
_FIRST_ATTRIBUTES = ("phasemeter.time_to_first_token", "gen_ai.response.time_to_first_chunk")
_FIRST_EVENTS = ("First Token Stream Event", "new_token")
_LANGFUSE_FIRST = "langfuse.observation.completion_start_time"
_GAP_METRICS = (
    "gen_ai.client.inference.time_per_output_chunk",
    "gen_ai.client.operation.time_per_output_chunk",
)
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "llm.token_count.completion",
    "usage.output_tokens",
    "langfuse.observation.usage_details",
)

_SLACK_NS = 50_000_000
"""The streams are 110 ms long: a span to the headers and one to the end are well apart."""


@dataclass(slots=True)
class Seen:
    """Everything that one session observed.

    Attributes:
        date: Day of the session.
        commit: What was observed of this tree.
        versions: Version of each tool.
        notes: What a reader must know of each tool.
        baselines: Name of the bare row of each tool.
        unavailable: Why a tool was not observed, or not in a scenario.
        observed: By tool, `sync` or `async`, and scenario.
    """

    date: str
    commit: str
    versions: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    baselines: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    observed: dict[str, dict[str, dict[str, Observed]]] = field(default_factory=dict)

    @property
    def tools(self) -> list[str]:
        """Tools that were observed, bare clients left out."""
        bare = set(self.baselines.values())
        return [name for name in self.observed if name not in bare]

    def add(self, tool: str, how: str, scenario: str, observed: Observed) -> None:
        """Take an observation."""
        self.observed.setdefault(tool, {}).setdefault(how, {})[scenario] = observed

    def get(self, tool: str, how: str, scenario: Scenario) -> Observed | None:
        """Return an observation, or None where there is none."""
        return self.observed.get(tool, {}).get(how, {}).get(scenario.name)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Seen:
        """Read what `save` wrote.

        Raises:
            OSError: If it cannot be read.
        """
        document = json.loads(path.read_text())
        seen = cls(**{**document, "observed": {}})
        for tool, hows in document["observed"].items():
            for how, scenarios in hows.items():
                for name, one in scenarios.items():
                    seen.add(tool, how, name, Observed.of(one))
        return seen


def first_times_s(observed: Observed) -> dict[str, float]:
    """Return every figure that a tool gives for a first chunk or token, s, by its name."""
    found: dict[str, float | None] = {
        **{name: _number(observed.attribute(name)) for name in _FIRST_ATTRIBUTES},
        **{name: observed.mean(name) for name in _FIRST_METRICS},
        **{f"event `{name}`": observed.event_s(name) for name in _FIRST_EVENTS},
        _LANGFUSE_FIRST: _since_start_s(observed, _LANGFUSE_FIRST),
    }
    return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a tool says of the times between chunks.

    Attributes:
        mean_ms: Mean of its samples.
        samples: How many it recorded.
        coalesced: Chunks that it counts as come together, and keeps out; None where it does not.
        consumer_limited: Gaps that it marks as caused by the consumer; None where it does not.
        clean_ms: Median of the gaps that it vouches for; None where it has none, or none apart.
    """

    mean_ms: float | None
    samples: int
    coalesced: int | None
    consumer_limited: int | None
    clean_ms: float | None = None


def gaps_of(observed: Observed) -> Gaps | None:
    """Return what a tool says of gaps; None where it says nothing."""
    coalesced = observed.attribute("phasemeter.coalesced_events")
    limited = observed.attribute("phasemeter.consumer_limited_gaps")
    clean_s = observed.attribute("phasemeter.gap.p50")
    clean_ms = None if clean_s is None else clean_s * 1000
    for name in _GAP_METRICS:
        samples = observed.count(name)
        if samples or coalesced:
            mean_s = observed.mean(name)
            mean_ms = None if mean_s is None else mean_s * 1000
            return Gaps(mean_ms, samples, coalesced, limited, clean_ms)
    return None


def output_tokens(observed: Observed) -> int | None:
    """Return the output tokens that a tool tells, or None."""
    for name in _OUTPUT_TOKENS:
        value = observed.attribute(name)
        if isinstance(value, str):
            usage = json.loads(value)
            value = usage.get("completion_tokens", usage.get("output"))
        if value is not None:
            return int(value)
    return None


def exit_word(observed: Observed) -> str:
    """Return how a tool told an exit: `ok`, `error` with its type, or `no span`, and when."""
    if not observed.spans:
        return "no span"
    failed = [span for span in observed.roots if span.status == "ERROR"]
    word = "ok"
    if failed:
        kinds = {span.error_type for span in failed if span.error_type}
        word = " ".join(["error", *sorted(f"`{kind}`" for kind in kinds)])
    return word if observed.when == "at once" else f"{word}, {observed.when}"


def is_told(scenario: Scenario, observed: Observed) -> bool | None:
    """Tell whether an exit was told as it was; None where either can be argued."""
    if scenario.is_error is None:
        return None
    if not observed.spans:
        return False
    return any(span.status == "ERROR" for span in observed.roots) == scenario.is_error


def told(seen: Seen, tool: str, how: str) -> tuple[int, int]:
    """Return how many exits a tool told as they were, of how many."""
    verdicts = [
        verdict
        for scenario in EXITS
        if (observed := seen.get(tool, how, scenario)) is not None
        and (verdict := is_told(scenario, observed)) is not None
    ]
    return sum(verdicts), len(verdicts)


def late_s(observed: Observed) -> float | None:
    """Return how long after the user's last chunk the last span ends, s."""
    if not observed.roots or observed.last_chunk_unix_ns is None:
        return None
    end_unix_ns = max(span.end_unix_ns for span in observed.roots)
    return (end_unix_ns - observed.last_chunk_unix_ns) / 1e9


def surface_word(observed: Observed, bare: Observed | None) -> str:
    """Return how much of a call a tool saw."""
    if bare is not None and (observed.chunks, observed.raised) != (bare.chunks, bare.raised):
        return f"changed: {observed.raised or f'{observed.chunks} chunks'}"
    if not observed.spans:
        return "no span"
    end_unix_ns = max(span.end_unix_ns for span in observed.spans)
    if observed.sent_last_unix_ns is None or end_unix_ns < observed.sent_last_unix_ns - _SLACK_NS:
        return "to the headers"
    return "first token" if first_times_s(observed) else "span"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _since_start_s(observed: Observed, name: str) -> float | None:
    """Return the time from its span's start to an attribute that is a date, s."""
    for span in observed.spans:
        value = span.attributes.get(name)
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip('"'))
            return moment.timestamp() - span.start_unix_ns / 1e9
    return None
