"""Reads a run folder: the manifest and every whole line of its record files.

Files are append-only and may be cut off anywhere by a killed process: a last line without line feed is
dropped silently, any other line that cannot be read is counted.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from phasemeter.analysis.manifest import load_manifest, refuse_newer
from phasemeter.core.clock import NS_PER_S, WallAnchor
from phasemeter.core.errors import UsageError
from phasemeter.core.record import SCHEMA_VERSION, Issued, parse_issued, parse_record
from phasemeter.core.timeline import Timeline, shifted
from phasemeter.telemetry.sample import ServerSample, parse_sample

_SAME_CLOCK_NS = NS_PER_S
"""Clocks that differ by less are one clock whose wall time was slewed a little."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One phase of one arm, in monotonic ns.

    Attributes:
        arm: Name of the topology under test (`load` for a load run).
        condition: What was done to it.
        repeat: Which repetition.
        phase: prime, baseline, inject, recovery or measure.
        start_ns: Begin of the phase.
        end_ns: End of the phase.
        users: Number of concurrent users where the condition is run with several; else None.
    """

    arm: str
    condition: str
    repeat: int
    phase: str
    start_ns: int
    end_ns: int
    users: int | None = None


Lag = tuple[float, float, float]
"""p50, p99 and maximum, ns."""


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """What a load worker said about itself at its end; None where it did not say.

    Attributes:
        worker: Its number.
        ended: `done` or `interrupted`.
        cpu_s: CPU time it used.
        wall_s: Wall time it ran.
        cpu_wait_s: How long it was ready to run while another process had its core.
        machine_busy_cores: Cores of its machine at work on average meanwhile, its own work included.
        steal_share: Share of the machine's time that its hypervisor took.
        cpus: Cores that it could run on; None for all.
        reads: Socket reads it made.
        token_events: Token events it saw.
        loop_lag_ns: p50, p99 and maximum of the time that a turn of its loop took.
        wake_lag_ns: The same of how late its loop came to run.
        send_lag_ns: The same of how late its sends were.
        read_lag_ns: The same of how long bytes had waited when it read them.
        histograms: HdrHistograms of its lags in us, V2 compressed as base64, by name.
    """

    worker: int
    ended: str
    cpu_s: float | None = None
    wall_s: float | None = None
    cpu_wait_s: float | None = None
    machine_busy_cores: float | None = None
    steal_share: float | None = None
    cpus: tuple[int, ...] | None = None
    reads: int | None = None
    token_events: int | None = None
    loop_lag_ns: Lag | None = None
    wake_lag_ns: Lag | None = None
    send_lag_ns: Lag | None = None
    read_lag_ns: Lag | None = None
    histograms: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunRecords:
    """Everything that a run folder tells.

    Attributes:
        path: The folder.
        manifest: Content of `run.json`.
        timelines: Responses that ended, in file order.
        issued: Requests that were started, in file order.
        marks: Phases; empty where the run was cut off before it wrote any.
        workers: What workers said at their end; a killed worker says nothing.
        record_files: How many record files there are, one a worker.
        unreadable_lines: Whole lines that could not be understood, over all files.
        server: Samples of the servers' own metrics, in file order.
    """

    path: Path
    manifest: Mapping[str, object]
    timelines: tuple[Timeline, ...] = ()
    issued: tuple[Issued, ...] = ()
    marks: tuple[Mark, ...] = ()
    workers: tuple[WorkerEnd, ...] = ()
    record_files: int = 0
    unreadable_lines: int = 0
    server: tuple[ServerSample, ...] = ()


@dataclass(slots=True)
class _Reading:
    """What has been read so far."""

    timelines: list[Timeline] = field(default_factory=list)
    issued: list[Issued] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    workers: list[WorkerEnd] = field(default_factory=list)
    server: list[ServerSample] = field(default_factory=list)
    unreadable_lines: int = 0
    anchor: WallAnchor | None = None

    def place(self, anchor: WallAnchor) -> int:
        """Return what to add to the times of a file to put them on the first file's clock.

        0 for files of one boot of one machine, whose monotonic clocks are the same.
        """
        if self.anchor is None:
            self.anchor = anchor
        shift_ns = self.anchor.monotonic_ns_at(anchor.unix_ns) - anchor.monotonic_ns
        return shift_ns if abs(shift_ns) > _SAME_CLOCK_NS else 0


def load_run(path: Path) -> RunRecords:
    """Read a run folder, finished or killed, or the record file of a `RecordSink`.

    With a record file its older ones (`FILE.1`, `FILE.2`, ...) are read too.

    Raises:
        UsageError: If nothing is there, it holds no run, or was written by a newer phasemeter.
    """
    path = Path(path)
    if path.is_file():
        return _load_record_file(path)
    manifest = load_manifest(path)
    record_paths = sorted(path.glob("records-*.jsonl"))
    reading = _read_all(record_paths)
    _read_marks(path / "marks.jsonl", reading)
    _read_workers(path / "workers.jsonl", reading)
    _read_server(path / "server.jsonl", reading)
    return RunRecords(
        path=path,
        manifest=manifest,
        timelines=tuple(reading.timelines),
        issued=tuple(reading.issued),
        marks=tuple(reading.marks),
        workers=tuple(reading.workers),
        record_files=len(record_paths),
        unreadable_lines=reading.unreadable_lines,
        server=tuple(reading.server),
    )


def _load_record_file(path: Path) -> RunRecords:
    older = sorted(
        (int(one.suffix[1:]), one)
        for one in path.parent.glob(f"{path.name}.*")
        if one.suffix[1:].isdigit()
    )
    reading = _read_all([*(one for _, one in reversed(older)), path])
    if reading.anchor is None:
        msg = f"run: {path} is no record file; pass a run folder or the file of a RecordSink"
        raise UsageError(msg)
    known = {request.request_id for request in reading.issued}
    # The line of the start may be in a file that was rotated away.
    started = [
        Issued(timeline.request_id, timeline.started_ns, timeline.tags)
        for timeline in reading.timelines
        if timeline.request_id not in known
    ]
    return RunRecords(
        path=path,
        manifest={
            "kind": "records",
            "run_id": path.name,
            "anchor": {"monotonic_ns": 0, "unix_ns": reading.anchor.unix_ns_at(0)},
            "created_unix_ns": reading.anchor.unix_ns,
        },
        timelines=tuple(reading.timelines),
        issued=(*started, *reading.issued),
        unreadable_lines=reading.unreadable_lines,
    )


def _read_all(paths: Sequence[Path]) -> _Reading:
    reading = _Reading()
    with _no_collections():
        for path in paths:
            _read_records(path, reading)
    return reading


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and line != b"\n":
                yield line


def _objects(path: Path, reading: _Reading) -> Iterator[dict[str, object]]:
    """Yield the JSON objects of a file's whole lines, counting the lines that are none."""
    for line in _whole_lines(path):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            yield document
        else:
            reading.unreadable_lines += 1


def _read_records(path: Path, reading: _Reading) -> None:
    shift_ns = 0
    for document in _objects(path, reading):
        try:
            if "id" in document:
                timeline = parse_record(document)
                reading.timelines.append(shifted(timeline, shift_ns) if shift_ns else timeline)
            elif "issued" in document:
                issued = parse_issued(document)
                reading.issued.append(replace(issued, started_ns=issued.started_ns + shift_ns))
            else:
                refuse_newer(int(str(document["phasemeter_records"])), SCHEMA_VERSION, path)
                shift_ns = reading.place(_anchor(document["anchor"]))
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
            reading.unreadable_lines += 1


def _anchor(value: object) -> WallAnchor:
    if not isinstance(value, dict):
        msg = f"expected an anchor, got {type(value).__name__}"
        raise TypeError(msg)
    return WallAnchor(int(value["monotonic_ns"]), int(value["unix_ns"]))


def _read_marks(path: Path, reading: _Reading) -> None:
    if not path.is_file():
        return
    for document in _objects(path, reading):
        try:
            reading.marks.append(
                Mark(
                    arm=str(document["arm"]),
                    condition=str(document["condition"]),
                    repeat=int(str(document.get("repeat", 1))),
                    phase=str(document["phase"]),
                    start_ns=int(str(document["start_ns"])),
                    end_ns=int(str(document["end_ns"])),
                    users=_whole_number(document.get("users")),
                )
            )
        except (KeyError, ValueError):
            reading.unreadable_lines += 1


def _read_workers(path: Path, reading: _Reading) -> None:
    if not path.is_file():
        return
    for document in _objects(path, reading):
        try:
            reading.workers.append(_parse_worker(document))
        except (KeyError, TypeError, ValueError):
            reading.unreadable_lines += 1


def _read_server(path: Path, reading: _Reading) -> None:
    if not path.is_file():
        return
    for document in _objects(path, reading):
        try:
            reading.server.append(parse_sample(document))
        except (KeyError, TypeError, ValueError):
            reading.unreadable_lines += 1


def _parse_worker(document: Mapping[str, object]) -> WorkerEnd:
    return WorkerEnd(
        worker=int(str(document["worker"])),
        ended=str(document["ended"]),
        cpu_s=_number(document.get("cpu_s")),
        wall_s=_number(document.get("wall_s")),
        cpu_wait_s=_number(document.get("cpu_wait_s")),
        machine_busy_cores=_number(document.get("machine_busy_cores")),
        steal_share=_number(document.get("steal_share")),
        cpus=_whole_numbers(document.get("cpus")),
        reads=_whole_number(document.get("reads")),
        token_events=_whole_number(document.get("token_events")),
        loop_lag_ns=_triple(document.get("loop_lag_ns")),
        wake_lag_ns=_triple(document.get("wake_lag_ns")),
        send_lag_ns=_triple(document.get("send_lag_ns")),
        read_lag_ns=_triple(document.get("read_lag_ns")),
        histograms=_texts(document.get("histograms")),
    )


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))


def _whole_number(value: object) -> int | None:
    return None if value is None else int(str(value))


def _whole_numbers(value: object) -> tuple[int, ...] | None:
    return tuple(int(str(one)) for one in value) if isinstance(value, list) else None


def _texts(value: object) -> Mapping[str, str]:
    texts = value if isinstance(value, dict) else {}
    return {str(name): text for name, text in texts.items() if isinstance(text, str)}


def _triple(value: object) -> Lag | None:
    if not isinstance(value, list) or len(value) != 3 or any(item is None for item in value):
        return None
    p50, p99, maximum = (float(item) for item in value)
    return p50, p99, maximum


@contextmanager
def _no_collections() -> Iterator[None]:
    """Hold the cycle collector while millions of acyclic objects are made: it would walk them all."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
