"""Interference runs of an engine that is simulated step by step, so that what is true is known.

The engine admits waiting requests while it has slots, reads admitted prompts whole in the step (policy
`mixed`) and gives every running request a token at the step's end. Steps vary, and hang together: their
length drifts (an AR(1) process) and now and then one is held up, for all streams at once.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from phasemeter.analysis.records import Mark, RunRecords
from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.record import Issued
from phasemeter.core.timeline import Outcome, Timeline, TokenEvent

_RECOVERY_MS = 500.0
_PRIME_MS = 500.0


@dataclass(frozen=True, slots=True)
class Engine:
    """What the engine is like.

    Attributes:
        users: Background users.
        slots: Requests that it serves at a time.
        step_ms: Length of an undisturbed step.
        prefill_ms_per_token: What a prompt token adds to its step.
        drift: Standard deviation of the log of step lengths.
        memory: Correlation of one step's deviation with the next one's.
        hiccup_rate: Share of the steps that are held up.
        hiccup_ms: For how long.
        background_tokens: Length of the background's answers.
        pace: What all times are multiplied by from the first injection on, as when another tenant comes
            or a processor cools down.
    """

    users: int = 4
    slots: int = 16
    step_ms: float = 10.0
    prefill_ms_per_token: float = 0.2
    drift: float = 0.1
    memory: float = 0.9
    hiccup_rate: float = 0.003
    hiccup_ms: float = 30.0
    background_tokens: int = 320
    pace: float = 1.0


@dataclass(slots=True)
class _Request:
    """A request on its way through the engine."""

    tags: dict[str, str]
    sent_ms: float
    prompt_tokens: int
    output_tokens: int
    tokens_ms: list[float] = field(default_factory=list)
    is_read: bool = False


def simulate(
    engine: Engine,
    seed: int,
    *,
    prompt_tokens: tuple[int, ...] = (256, 512),
    injections_per_s: float = 2.0,
    baseline_s: float = 4.0,
    inject_s: float = 6.0,
    repeats: int = 2,
) -> RunRecords:
    """Return a run of condition inject on one topology, `mixed`."""
    timelines: list[Timeline] = []
    marks: list[Mark] = []
    origin_ms = 1_000.0
    for repeat in range(1, repeats + 1):
        rng = Random(f"{seed}/{repeat}")
        lengths = (_PRIME_MS, baseline_s * 1e3, inject_s * 1e3, _RECOVERY_MS)
        at_ms = origin_ms
        for phase, length_ms in zip(
            ("prime", "baseline", "inject", "recovery"), lengths, strict=True
        ):
            end_ms = at_ms + length_ms
            marks.append(
                Mark("mixed", "inject", repeat, phase, _ns(at_ms), _ns(end_ms), engine.users)
            )
            at_ms = end_ms
        begin_ms = origin_ms + _PRIME_MS + baseline_s * 1e3
        spacing_ms = 1e3 / injections_per_s
        sendings = [
            _Request(
                _tags(repeat, engine, "injected") | {"prompt_tokens": str(tokens)},
                begin_ms + spacing_ms * (number + rng.uniform(0, 0.5)),
                tokens,
                8,
            )
            for number in range(int(inject_s * injections_per_s))
            for tokens in (prompt_tokens[number % len(prompt_tokens)],)
        ]
        served = _serve(engine, rng, origin_ms, begin_ms, at_ms, sendings, repeat)
        timelines += [_timeline(f"{repeat}-{number}", one) for number, one in enumerate(served)]
        origin_ms = max(at_ms, *(one.tokens_ms[-1] for one in served)) + 1_000
    issued = tuple(Issued(one.request_id, one.started_ns, one.tags) for one in timelines)
    manifest = {"kind": "interference", "target": {"gpus": {"mixed": 1}}}
    return RunRecords(Path("run"), manifest, tuple(timelines), issued, tuple(marks))


def _serve(
    engine: Engine,
    rng: Random,
    origin_ms: float,
    begin_ms: float,
    stop_ms: float,
    sendings: list[_Request],
    repeat: int,
) -> list[_Request]:
    """Serve the background until `stop_ms` and all prompts; return every request."""

    def background(sent_ms: float, length: int) -> _Request:
        return _Request(_tags(repeat, engine, "background"), sent_ms, 8, length)

    coming = deque(sendings)
    waiting = deque(
        background(origin_ms + user, round(engine.background_tokens * rng.uniform(0.5, 1)))
        for user in range(engine.users)
    )
    running: list[_Request] = []
    done: list[_Request] = []
    t_ms, deviation = origin_ms, 0.0
    for _ in count():
        while coming and coming[0].sent_ms <= t_ms:
            waiting.append(coming.popleft())
        while waiting and waiting[0].sent_ms <= t_ms and len(running) < engine.slots:
            running.append(waiting.popleft())
        if not running:
            if not coming and not waiting:
                return done
            t_ms += 1.0
            continue
        deviation = engine.memory * deviation + rng.gauss(
            0, engine.drift * math.sqrt(1 - engine.memory**2)
        )
        read = sum(one.prompt_tokens for one in running if not one.is_read)
        pace = engine.pace if t_ms >= begin_ms else 1.0
        t_ms += pace * (engine.step_ms * math.exp(deviation) + read * engine.prefill_ms_per_token)
        t_ms += engine.hiccup_ms if rng.random() < engine.hiccup_rate else 0.0
        for place, one in enumerate(running):
            one.is_read = True
            one.tokens_ms.append(t_ms + place * 0.001)
        for one in [each for each in running if len(each.tokens_ms) == each.output_tokens]:
            running.remove(one)
            done.append(one)
            if one.tags["class"] == "background" and t_ms < stop_ms:
                waiting.append(background(t_ms, engine.background_tokens))
    raise AssertionError


def _tags(repeat: int, engine: Engine, name: str) -> dict[str, str]:
    return {
        "arm": "mixed",
        "condition": "inject",
        "repeat": str(repeat),
        "users": str(engine.users),
        "class": name,
        "instance": "0",
    }


def _timeline(name: str, one: _Request) -> Timeline:
    return Timeline(
        request_id=name,
        dialect="openai.completions",
        operation="text_completion",
        model="simulated",
        stamp_source="kernel",
        started_ns=_ns(one.sent_ms),
        sent_ns=_ns(one.sent_ms),
        intended_ns=_ns(one.sent_ms),
        ended_ns=_ns(one.tokens_ms[-1]),
        outcome=Outcome.OK,
        events=tuple(
            TokenEvent(_ns(t_ms), "content", 1, read) for read, t_ms in enumerate(one.tokens_ms)
        ),
        tags=one.tags,
    )


def _ns(t_ms: float) -> int:
    return round(t_ms * NS_PER_MS)
