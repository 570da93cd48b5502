"""Starts the workers of a run, follows their progress, and always gets them to end."""

from __future__ import annotations

import json
import os
import pickle
import platform
import selectors
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from phasemeter.core.clock import NS_PER_MS, NS_PER_S, now_ns
from phasemeter.core.errors import PhasemeterError, UsageError
from phasemeter.load import worker
from phasemeter.load.job import Job, Progress
from phasemeter.load.plan import Plan
from phasemeter.load.target import Target

_READY_NS = 60 * NS_PER_S
# From the order to begin to the plan's origin: the first requests are prepared meanwhile.
_LEAD_NS = 200 * NS_PER_MS
_STOP_S = 10.0
_STOPPED = 130
# The driver ends by itself at the end of the drain; this much later it is taken for hung.
_GRACE_S = 15.0


class WorkerFailedError(PhasemeterError):
    """A worker process ended with an error; the message holds the end of what it said."""


def cpus_for(workers: int) -> list[int]:
    """Return a CPU of its own for each worker, out of those that this process may use.

    Raises:
        UsageError: If there are not enough, or the system cannot keep a process to a CPU.
    """
    if not hasattr(os, "sched_getaffinity"):
        msg = f"--pin: {platform.system()} cannot keep a process to a CPU; accepted: no --pin here"
        raise UsageError(msg)
    allowed = sorted(os.sched_getaffinity(0))
    if workers > len(allowed):
        msg = f"--pin: {workers} workers and {len(allowed)} CPUs; accepted: a CPU for each worker"
        raise UsageError(msg)
    return allowed[:workers]


def run_plan(
    folder: Path,
    plan: Plan,
    target: Target,
    *,
    first_writer: int = 0,
    workers: int = 1,
    timeout_s: float = 600.0,
    cpus: Sequence[int] = (),
    headers: Mapping[str, str],
    on_progress: Callable[[float, Progress], None] = lambda elapsed_s, progress: None,
) -> tuple[int, int]:
    """Carry out a plan with worker processes.

    Args:
        folder: The run folder; the workers append their records to it.
        plan: What to send.
        target: Where to.
        first_writer: Number of the first worker's record file.
        workers: Number of processes.
        timeout_s: Time limit of one request.
        cpus: CPU that each worker keeps to, from `cpus_for`; empty for any.
        headers: Extra request headers.
        on_progress: Called a few times a second with the time since the plan's origin and totals.

    Returns:
        Start (the plan's origin) and end of the run, monotonic ns.

    Raises:
        KeyboardInterrupt: After SIGINT or SIGTERM, when the workers have written what they had.
        WorkerFailedError: If a worker failed; the others are stopped first.
    """
    salt = uuid.uuid4().hex[:12]
    crew = _Crew()
    previous = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        for number in range(workers):
            job = Job(
                folder=folder.resolve(),
                writer=first_writer + number,
                worker=number,
                workers=workers,
                plan=plan,
                target=target,
                salt=salt,
                timeout_s=timeout_s,
                cpu=cpus[number] if cpus else None,
                headers=headers,
            )
            crew.start(job)
        crew.await_ready(now_ns() + _READY_NS)
        t0_ns = now_ns() + _LEAD_NS
        crew.begin(t0_ns)
        deadline_ns = t0_ns + round((plan.duration_s + plan.drain_s + _GRACE_S) * NS_PER_S)
        crew.follow(deadline_ns, lambda sums: on_progress((now_ns() - t0_ns) / NS_PER_S, sums))
    finally:
        with suppress(KeyboardInterrupt):
            crew.stop()
        signal.signal(signal.SIGTERM, previous)
    return t0_ns, now_ns()


def _raise_interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


class _Crew:
    """The worker processes of one run."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._totals: dict[int, Progress] = {}
        self._rests: dict[int, bytes] = {}
        self._selector = selectors.DefaultSelector()

    def start(self, job: Job) -> None:
        # A session of its own keeps a Ctrl-C at the terminal from reaching the workers past us.
        process = subprocess.Popen(
            [sys.executable, "-m", worker.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, process)
        with suppress(BrokenPipeError):  # it died at once; its exit status tells below
            process.stdin.write(pickle.dumps(job))
            process.stdin.flush()

    def await_ready(self, deadline_ns: int) -> None:
        """Wait until every worker has said that it can begin: a busy machine starts them slowly."""
        while len(self._totals) < len(self._processes):
            self._listen()
            if now_ns() > deadline_ns:
                msg = "a load worker did not get ready in time; the machine may be overloaded"
                raise WorkerFailedError(msg)

    def begin(self, t0_ns: int) -> None:
        """Tell every worker the plan's origin."""
        for process in self._processes:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(b"%d\n" % t0_ns)
                process.stdin.close()

    def follow(self, deadline_ns: int, on_progress: Callable[[Progress], None]) -> None:
        while self._selector.get_map():
            self._listen()
            on_progress(self._sum())
            if now_ns() > deadline_ns:
                msg = "a worker did not end in time and was stopped; its records are kept"
                raise WorkerFailedError(msg)

    def _listen(self) -> None:
        for key, _ in self._selector.select(0.2):
            process = key.data
            data = process.stdout.read()
            if data:
                self._take(process.pid, data)
            elif data == b"":
                self._selector.unregister(process.stdout)
                self._check(process)

    def stop(self) -> None:
        """End what still runs: interrupt, wait, kill. Bounded."""
        running = [process for process in self._processes if process.poll() is None]
        for process in running:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()  # what still waits for the order to begin ends by this
            process.send_signal(signal.SIGINT)
        for process in running:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._selector.close()
        for process in self._processes:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def _take(self, pid: int, data: bytes) -> None:
        *lines, rest = (self._rests.get(pid, b"") + data).split(b"\n")
        self._rests[pid] = rest
        if lines:
            self._totals[pid] = Progress(**json.loads(lines[-1]))

    def _check(self, process: subprocess.Popen[bytes]) -> None:
        try:
            status = process.wait(_STOP_S)
        except subprocess.TimeoutExpired as fault:
            msg = "a load worker hangs after its last word; its records are kept"
            raise WorkerFailedError(msg) from fault
        if status == 0:
            return
        if status == _STOPPED:
            msg = "a load worker was stopped from outside before the plan was carried out"
            raise WorkerFailedError(msg)
        assert process.stderr is not None
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
        msg = f"a load worker failed (status {status}): {said[-1] if said else 'it said nothing'}"
        raise WorkerFailedError(msg)

    def _sum(self) -> Progress:
        total = Progress()
        for progress in self._totals.values():
            total = total.plus(progress)
        return total
