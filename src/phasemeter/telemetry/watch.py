"""Samples of all instances of a topology: before a condition, once a second during it, and after it.

The samples are taken by a thread of the process that coordinates a run, never of one that measures. Each
look has a time limit, and an instance that has no page to begin with is not asked again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from phasemeter.core.clock import now_ns
from phasemeter.telemetry import FLAVOURS
from phasemeter.telemetry.page import parse_page
from phasemeter.telemetry.sample import Moment, Role, ServerSample
from phasemeter.telemetry.signals import Signal

FILE_NAME = "server.jsonl"

_EVERY_S = 1.0
_IDLE_WITHIN_S = 3.0
_LOOK_AGAIN_S = 0.25


class NoPageError(Exception):
    """An instance's metrics page cannot be had; the message says why."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that may have a metrics page.

    Attributes:
        role: What it does in its topology.
        number: Its number within the role.
        fetch: Returns its metrics page within a time limit, or raises NoPageError.
    """

    role: Role
    number: int
    fetch: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Condition:
    """What is being run.

    Attributes:
        arm: Name of the topology.
        condition: What is done to it.
        repeat: Which repetition.
        users: Number of concurrent users where the condition is run with several, else None.
    """

    arm: str
    condition: str
    repeat: int = 1
    users: int | None = None


def look(instance: Instance, condition: Condition, moment: Moment) -> ServerSample:
    """Return what an instance tells now, or why it tells nothing."""
    sample = ServerSample(
        t_ns=now_ns(),
        arm=condition.arm,
        condition=condition.condition,
        repeat=condition.repeat,
        moment=moment,
        role=instance.role,
        instance=instance.number,
        users=condition.users,
    )
    try:
        page = parse_page(instance.fetch())
    except NoPageError as fault:
        return replace(sample, reason=str(fault))
    except ValueError:
        return replace(sample, reason="its metrics page is not in the Prometheus format")
    flavour = next((one for one in FLAVOURS if one.speaks(page)), None)
    if flavour is None:
        return replace(sample, reason="its metrics page is of no known engine")
    return replace(sample, flavour=flavour.name, values=flavour.read(page))


@contextmanager
def watching(folder: Path, instances: Sequence[Instance], condition: Condition) -> Iterator[None]:
    """Sample the instances into a run folder's `server.jsonl` while the block runs.

    The last look waits, for 3 s at most, until an instance says that nothing runs on it: counters
    follow the engine's steps.
    """
    with (folder / FILE_NAME).open("a", encoding="utf-8") as file:

        def write(sample: ServerSample) -> ServerSample:
            file.write(json.dumps(sample.to_json(), separators=(",", ":")) + "\n")
            file.flush()
            return sample

        first = [write(look(one, condition, "start")) for one in instances]
        telling = [
            one for one, sample in zip(instances, first, strict=True) if sample.reason is None
        ]
        over = threading.Event()

        def sample_on() -> None:
            while not over.wait(_EVERY_S):
                for one in telling:
                    if not over.is_set():
                        write(look(one, condition, "during"))

        sampler = threading.Thread(target=sample_on, name="server metrics", daemon=True)
        if telling:
            sampler.start()
        try:
            yield
        finally:
            over.set()
            if telling:
                sampler.join()
            for one in telling:
                write(_last_look(one, condition))


def _last_look(instance: Instance, condition: Condition) -> ServerSample:
    pause = threading.Event()
    deadline_ns = now_ns() + round(_IDLE_WITHIN_S * 1e9)
    while True:
        sample = look(instance, condition, "end")
        busy = _at_work(sample.values)
        if not busy or now_ns() > deadline_ns:
            return sample
        pause.wait(_LOOK_AGAIN_S)


def _at_work(values: Mapping[Signal, float]) -> bool:
    return values.get("running_requests", 0) + values.get("waiting_requests", 0) > 0
