"""What a ramp measured: latencies and throughput at each number of users. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ALL = "all"
"""Name of all classes together."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value that was measured, with its 95 % interval.

    Attributes:
        value: None where it could not be measured.
        ci95: None where samples are too few for an interval.
    """

    value: float | None
    ci95: tuple[float, float] | None

    def per(self, number: int | None) -> Estimate:
        """Return the value divided by a number; unknown where that is."""
        if self.value is None or not number:
            return Estimate(None, None)
        interval = None if self.ci95 is None else (self.ci95[0] / number, self.ci95[1] / number)
        return Estimate(self.value / number, interval)

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {"value": self.value, "ci95": None if self.ci95 is None else list(self.ci95)}


@dataclass(frozen=True, slots=True)
class RampClass:
    """One class at one level.

    Attributes:
        requests: Requests that were started in the measured time and ended ok.
        ttft_ms: Their time to first token in ms: `p50`, `p90`, `p99`.
        gap_ms: Gaps in ms that ended in the measured time: `p50`, `p99`.
        e2e_p50_ms: Median of their whole time in ms, None without one.
    """

    requests: int
    ttft_ms: Mapping[str, Estimate]
    gap_ms: Mapping[str, Estimate]
    e2e_p50_ms: float | None


@dataclass(frozen=True, slots=True)
class RampLevel:
    """One number of users on one topology, over all repeats.

    Attributes:
        topology: Name of the topology.
        users: Users at the same time.
        gpus: Accelerators (or cores) that the topology has, None where not told.
        issued: Requests that were started in the measured time.
        ok: Those of them that ended ok.
        classes: By class, the shortest prompts first, and `all` together last.
        output_tokens_per_s: Output tokens of ok responses per second.
        requests_per_s: Responses per second that ended ok.
    """

    topology: str
    users: int
    gpus: int | None
    issued: int
    ok: int
    classes: Mapping[str, RampClass]
    output_tokens_per_s: Estimate
    requests_per_s: float | None

    @property
    def output_tokens_per_s_per_gpu(self) -> Estimate:
        """The same for each accelerator (or core); unknown where nobody told their number."""
        return self.output_tokens_per_s.per(self.gpus)


def by_topology(levels: Iterable[RampLevel]) -> dict[str, list[RampLevel]]:
    """Return the levels of each topology, fewest users first."""
    found: dict[str, list[RampLevel]] = {}
    for level in sorted(levels, key=lambda level: level.users):
        found.setdefault(level.topology, []).append(level)
    return found


def peak_of(levels: Sequence[RampLevel]) -> RampLevel | None:
    """Return the level with the highest throughput; of equal ones the one with the fewest users."""
    known = [level for level in levels if level.output_tokens_per_s.value is not None]
    return max(
        known,
        key=lambda level: (level.output_tokens_per_s.value or 0.0, -level.users),
        default=None,
    )


def ramp_json(levels: Iterable[RampLevel]) -> dict[str, object]:
    """Return the levels by topology, with the number of users at which throughput peaks."""
    return {
        topology: {
            "peak_users": None if (peak := peak_of(mine)) is None else peak.users,
            "levels": [_level_json(level) for level in mine],
        }
        for topology, mine in by_topology(levels).items()
    }


def _level_json(level: RampLevel) -> dict[str, object]:
    return {
        "users": level.users,
        "gpus": level.gpus,
        "issued": level.issued,
        "ok": level.ok,
        "output_tokens_per_s": level.output_tokens_per_s.to_json(),
        "output_tokens_per_s_per_gpu": level.output_tokens_per_s_per_gpu.to_json(),
        "requests_per_s": level.requests_per_s,
        "classes": {
            name: {
                "requests": one.requests,
                "ttft_ms": {key: value.to_json() for key, value in one.ttft_ms.items()},
                "gap_ms": {key: value.to_json() for key, value in one.gap_ms.items()},
                "e2e_p50_ms": one.e2e_p50_ms,
            }
            for name, one in level.classes.items()
        },
    }
