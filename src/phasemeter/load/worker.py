"""A worker process: carries out its share of a plan and writes its record file.

Started as `python -m phasemeter.load.worker` with a pickled `Job` on standard input. It prints running
totals as JSON lines; after the first, which says that it is ready, it waits for a line with the plan's
origin. It stops on SIGINT or SIGTERM, and when its parent is gone: what is in flight is cancelled and
recorded, the files are flushed.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import asdict

from phasemeter.core.clock import NS_PER_MS, now_ns
from phasemeter.core.record import Issued
from phasemeter.load.driver import Driver
from phasemeter.load.flight import Flight
from phasemeter.load.job import Job, Progress
from phasemeter.load.process_use import ProcessUse
from phasemeter.load.record_file import RecordFile

_GARBAGE_EVERY = 20_000
_PROGRESS_EVERY_NS = 200 * NS_PER_MS


class Worker:
    """Runs one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._records = RecordFile(job.folder, job.writer)
        self._parent = os.getppid()
        self._signalled = False
        self._orphaned = False
        self._reported_ns = 0
        self._driver = Driver(
            job.plan,
            job.target,
            worker=job.worker,
            workers=job.workers,
            salt=job.salt,
            headers=job.headers,
            timeout_s=job.timeout_s,
            on_issued=self._on_issued,
            on_finished=self._records.finished,
        )

    def run(self) -> bool:
        """Say that it is ready, wait for the plan's origin, and run to the end of the plan.

        Returns:
            False when it was stopped before the end.
        """
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        self._report_progress()
        told = sys.stdin.buffer.readline()
        use = ProcessUse()
        try:
            # Nothing is told where the run has been given up; the driver then stops at its first look.
            done = self._driver.run(int(told or 0), self._should_stop if told else lambda: True)
            self._append_self_report(use, "done" if done else "interrupted")
        finally:
            self._records.close()
        self._report_progress()
        return done

    def _on_signal(self, number: int, frame: object) -> None:
        del number, frame
        self._signalled = True

    def _on_issued(self, flight: Flight) -> None:
        issued = Issued(flight.prepared.request_id, flight.started_ns, flight.tags)
        self._records.issued(issued)

    def _should_stop(self) -> bool:
        t_ns = now_ns()
        self._records.flush_if_due(t_ns)
        if t_ns - self._reported_ns >= _PROGRESS_EVERY_NS:
            self._reported_ns = t_ns
            self._report_progress()
        return self._signalled or self._orphaned or os.getppid() != self._parent

    def _report_progress(self) -> None:
        counts = self._driver.counts
        progress = Progress(
            counts.issued, counts.ok, counts.failed, counts.in_flight, counts.token_events
        )
        try:
            print(json.dumps(asdict(progress)), flush=True)  # noqa: T201
        except OSError:
            self._orphaned = True

    def _append_self_report(self, use: ProcessUse, ended: str) -> None:
        report = {
            "worker": self._job.writer,
            "cpu": self._job.cpu,
            **use.to_json(),
            "reads": self._driver.counts.reads,
            "token_events": self._driver.counts.token_events,
            **self._driver.health.to_json(),
            "ended": ended,
        }
        line = json.dumps(report, separators=(",", ":")) + "\n"
        # One unbuffered write with O_APPEND goes in whole, so workers can share the file.
        with (self._job.folder / "workers.jsonl").open("ab", buffering=0) as file:
            file.write(line.encode())


def _allow_many_connections() -> None:
    """Raise the limit of open files to what this process is allowed: each request may need one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # some systems have a lower limit of their own
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> int:
    """Run the job on standard input."""
    _allow_many_connections()
    job = pickle.load(sys.stdin.buffer)  # from our own parent process
    if job.cpu is not None:
        os.sched_setaffinity(0, {job.cpu})
    # Requests leave no cycles behind, so looking for garbage at every 700 objects finds none.
    gc.set_threshold(_GARBAGE_EVERY)
    gc.freeze()  # what was imported is never garbage: collections need not look at it
    return 0 if Worker(job).run() else 130


if __name__ == "__main__":
    sys.exit(main())
