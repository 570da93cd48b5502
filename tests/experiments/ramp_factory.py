"""Ramps made by hand: a server with so much capacity, users who wait for each other beyond it."""

from __future__ import annotations

from pathlib import Path

from phasemeter.analysis.records import Mark, RunRecords
from phasemeter.core.record import Issued
from phasemeter.core.timeline import Timeline
from tests.analysis.run_factory import MS, make_timeline

PRIME_MS, MEASURE_MS = 5_000.0, 15_000.0
LEVELS = (1, 2, 4, 8)
PROMPTS = {"short": "256", "long": "3000"}
TOKENS = 10


def make_ramp(
    *,
    ttft_ms: dict[int, float] | None = None,
    gap_ms: dict[int, float] | None = None,
    arms: tuple[str, ...] = ("mixed",),
    slower: float = 2.0,
    levels: tuple[int, ...] = LEVELS,
    gpus: int | None = 2,
    prime_s: float | None = 5.0,
    warming: float = 2.0,
) -> RunRecords:
    """A whole ramp of two repeats.

    Args:
        ttft_ms: TTFT at each number of users on the first topology; 50 ms a user by default.
        gap_ms: Gap between tokens, likewise; 10 ms by default.
        arms: The topologies.
        slower: Each topology's TTFT over that of the one before.
        levels: Numbers of users.
        gpus: Accelerators of each topology.
        prime_s: Warm-up in the manifest.
        warming: TTFT of requests that start in the warm-up, over that of the others.
    """
    timelines: list[Timeline] = []
    marks: list[Mark] = []
    start_ms = 1_000.0
    for repeat in (1, 2):
        for users in levels:
            for number, arm in enumerate(arms):
                ttft = (ttft_ms or {}).get(users, 50.0 * users) * slower**number
                gap = (gap_ms or {}).get(users, 10.0)
                middle_ms, end_ms = start_ms + PRIME_MS, start_ms + PRIME_MS + MEASURE_MS
                marks += [
                    mark(arm, users, repeat, "prime", start_ms, middle_ms),
                    mark(arm, users, repeat, "measure", middle_ms, end_ms),
                ]
                for user in range(users):
                    timelines += _user(
                        arm, users, repeat, user, start_ms, end_ms, ttft, gap, warming
                    )
                start_ms = end_ms + 60_000
    issued = tuple(Issued(t.request_id, t.started_ns, t.tags) for t in timelines)
    manifest = {
        "target": {"gpus": dict.fromkeys(arms, gpus)},
        "plan": {} if prime_s is None else {"ramp_prime_s": prime_s},
    }
    return RunRecords(Path("run"), manifest, tuple(timelines), issued, tuple(marks))


def _user(arm, users, repeat, user, start_ms, end_ms, ttft_ms, gap_ms, slow):
    """One user's requests, one after the other; those of the warm-up wait longer."""
    t_ms, number = start_ms + user * ttft_ms / users, 0  # not all in step
    while t_ms < end_ms:
        name = "long" if (number + user) % 5 == 4 else "short"
        is_warming = t_ms < start_ms + PRIME_MS
        wait_ms = ttft_ms * (slow if is_warming else 1) + (number % 5) + user * 0.01
        first_ms = t_ms + wait_ms
        gaps = [gap_ms + k * 0.001 for k in range(TOKENS - 1)]
        yield make_timeline(
            f"x-{arm}{users}-{repeat}-{user}-{number}",
            start_ms=t_ms,
            first_ms=first_ms,
            gaps_ms=gaps,
            tags={
                "arm": arm,
                "condition": f"ramp_u{users}",
                "repeat": str(repeat),
                "class": name,
                "prompt_tokens": PROMPTS[name],
            },
        )
        t_ms = first_ms + sum(gaps) + 1
        number += 1


def mark(arm: str, users: int, repeat: int, phase: str, start_ms: float, end_ms: float) -> Mark:
    return Mark(arm, f"ramp_u{users}", repeat, phase, round(start_ms * MS), round(end_ms * MS))
