"""What a process used of the machine while it worked, and what the machine did besides.

Read from the system at the begin and at the end. What a system does not tell is None.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from phasemeter.core.clock import NS_PER_S, now_ns

_SCHEDSTAT = Path("/proc/self/schedstat")
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class _Reading:
    t_ns: int
    cpu_s: float
    waited_ns: int | None
    machine: tuple[int, ...] | None


class ProcessUse:
    """Measures from its making on."""

    def __init__(self) -> None:
        self._begin = _read()

    def to_json(self) -> dict[str, object]:
        """Return the use since then.

        `cpu_s` and `wall_s` are this process's. `cpu_wait_s` is how long it was ready to run and another
        had its core (Linux). `machine_busy_cores` is how many cores of the machine were at work on
        average, this process included; `steal_share` which share of the machine's time its hypervisor
        took. `cpus` are the cores it may run on, None for all.
        """
        begin, end = self._begin, _read()
        wall_s = (end.t_ns - begin.t_ns) / NS_PER_S
        waited_s = None
        if begin.waited_ns is not None and end.waited_ns is not None:
            waited_s = round((end.waited_ns - begin.waited_ns) / NS_PER_S, 3)
        busy_cores, steal_share = _machine_use(begin, end)
        return {
            "cpu_s": round(end.cpu_s - begin.cpu_s, 3),
            "wall_s": round(wall_s, 3),
            "cpu_wait_s": waited_s,
            "machine_busy_cores": busy_cores,
            "steal_share": steal_share,
            "cpus": _pinned_to(),
        }


def _read() -> _Reading:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return _Reading(now_ns(), usage.ru_utime + usage.ru_stime, _waited_ns(), _machine_ticks())


def _waited_ns() -> int | None:
    try:
        return int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _machine_ticks() -> tuple[int, ...] | None:
    """Return user, nice, system, idle, iowait, irq, softirq and steal time of all cores."""
    try:
        with _STAT.open(encoding="ascii") as file:
            words = file.readline().split()
        ticks = tuple(int(word) for word in words[1:9])
    except (OSError, ValueError):
        return None
    return ticks if words[0] == "cpu" and len(ticks) == 8 else None


def _machine_use(begin: _Reading, end: _Reading) -> tuple[float | None, float | None]:
    """Return how many cores were busy on average, and which share was stolen."""
    cores = os.cpu_count()
    if begin.machine is None or end.machine is None or not cores:
        return None, None
    spent = [after - before for before, after in zip(begin.machine, end.machine, strict=True)]
    whole = sum(spent)
    if whole <= 0:
        return None, None  # too short to tell
    user, nice, system, _, _, irq, softirq, steal = spent
    busy = user + nice + system + irq + softirq
    return round(busy / whole * cores, 3), round(steal / whole, 4)


def _pinned_to() -> list[int] | None:
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    return allowed if len(allowed) < (os.cpu_count() or 0) else None
