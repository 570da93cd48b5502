"""Runs a program and measures its whole process tree: CPU time, memory, wall time."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil

from phasemeter.core.clock import NS_PER_S, now_ns

_SAMPLE_EVERY_S = 0.25
_GRACE_S = 5.0
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Sample:
    """What the tree had used at a time: CPU time, and how often its threads had gone to wait."""

    t_ns: int
    cpu_s: float
    waits: int = 0


@dataclass(slots=True)
class Usage:
    """What a program took.

    Attributes:
        returncode: Exit status; negative for a signal, None if it ran into the time limit.
        started_ns: Just before it was started.
        ended_ns: Its first process had ended.
        cpu_s: User and system time of every process of the tree.
        peak_rss_bytes: Largest sum of resident sizes seen; pages that processes share count for each.
        samples: CPU time and waits over the run.
    """

    returncode: int | None
    started_ns: int
    ended_ns: int = 0
    cpu_s: float = 0.0
    peak_rss_bytes: int = 0
    samples: list[Sample] = field(default_factory=list)

    @property
    def wall_s(self) -> float:
        """Time from start to end."""
        return (self.ended_ns - self.started_ns) / NS_PER_S

    def cpu_between(self, start_ns: int, end_ns: int) -> float | None:
        """Return the CPU time used between two instants, s; None where the samples do not reach."""
        return self._between(start_ns, end_ns, lambda sample: sample.cpu_s)

    def waits_between(self, start_ns: int, end_ns: int) -> float | None:
        """Return how often threads went to wait between two instants; None as above."""
        return self._between(start_ns, end_ns, lambda sample: sample.waits)

    def _between(
        self, start_ns: int, end_ns: int, figure: Callable[[Sample], float]
    ) -> float | None:
        start, end = (self._at(t_ns, figure) for t_ns in (start_ns, end_ns))
        return None if start is None or end is None else end - start

    def _at(self, t_ns: int, figure: Callable[[Sample], float]) -> float | None:
        for earlier, later in pairwise(self.samples):
            if earlier.t_ns <= t_ns <= later.t_ns:
                share = (t_ns - earlier.t_ns) / (later.t_ns - earlier.t_ns)
                return figure(earlier) + share * (figure(later) - figure(earlier))
        return None


@contextmanager
def only_on(cpus: Collection[int] | None) -> Iterator[None]:
    """Let processes that are started meanwhile inherit these cores; None for all."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run_measured(
    command: Sequence[str],
    out: Path,
    *,
    environment: Mapping[str, str],
    cpus: Collection[int] | None,
    timeout_s: float,
) -> Usage:
    """Run a program to its end; its output goes to `stdout.txt` and `stderr.txt` in `out`.

    Whatever it leaves running is ended. Other children of this process are left alone.

    Raises:
        OSError: If it cannot be started.
    """
    out.mkdir(parents=True, exist_ok=True)
    _adopt_orphans(adopt=True)
    others = {child.pid for child in psutil.Process().children()}
    before_s = _reaped_cpu_s()
    with (out / "stdout.txt").open("wb") as stdout, (out / "stderr.txt").open("wb") as stderr:
        usage = Usage(None, now_ns(), samples=[])
        with only_on(cpus):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={**os.environ, **environment},
            )
        try:
            while (
                process.poll() is None and usage.ended_ns < usage.started_ns + timeout_s * NS_PER_S
            ):
                _take_sample(usage, others, before_s)
                usage.ended_ns = now_ns()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SAMPLE_EVERY_S)
            usage.ended_ns = now_ns()
        finally:
            usage.returncode = process.poll()
            _end_tree(others)
            process.poll()
            _adopt_orphans(adopt=False)
    usage.cpu_s = _reaped_cpu_s() - before_s
    usage.samples.append(Sample(now_ns(), usage.cpu_s, _last_waits(usage)))
    return usage


def _adopt_orphans(*, adopt: bool) -> None:
    """Become the parent of processes whose own parent ends, to count and to end them, or stop so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def _reaped_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tree(others: Collection[int]) -> list[psutil.Process]:
    """Return the processes below this one, without the other children and theirs."""
    found = []
    for child in psutil.Process().children():
        if child.pid not in others:
            found.append(child)
            with suppress(psutil.Error):
                found += child.children(recursive=True)
    return found


def _take_sample(usage: Usage, others: Collection[int], before_s: float) -> None:
    t_ns = now_ns()
    cpu_s, rss_bytes, waits = _reaped_cpu_s() - before_s, 0, 0
    for process in _tree(others):
        with suppress(psutil.Error):
            times = process.cpu_times()
            cpu_s += times.user + times.system + times.children_user + times.children_system
            rss_bytes += process.memory_info().rss
            waits += _waits_of(process.pid)
    # What ended meanwhile waits no more, and its count is gone.
    usage.samples.append(Sample(t_ns, cpu_s, max(waits, _last_waits(usage))))
    usage.peak_rss_bytes = max(usage.peak_rss_bytes, rss_bytes)


def _last_waits(usage: Usage) -> int:
    return usage.samples[-1].waits if usage.samples else 0


def _waits_of(pid: int) -> int:
    """Return how often the threads of a process have given up their core to wait; 0 where unknown."""
    waits = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(OSError):
            _, _, rest = status.read_text().partition("\nvoluntary_ctxt_switches:")
            waits += int(rest.split(maxsplit=1)[0]) if rest else 0
    return waits


def _end_tree(others: Collection[int]) -> None:
    """End and reap what is left, politely first."""
    deadline_ns = now_ns() + round(_GRACE_S * NS_PER_S)
    for kind in (signal.SIGTERM, signal.SIGKILL):
        for process in _tree(others):
            with suppress(psutil.Error):
                process.send_signal(kind)
        while left := _tree(others):
            for process in left:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
            if kind is signal.SIGTERM and now_ns() > deadline_ns:
                break
            time.sleep(0.02)
