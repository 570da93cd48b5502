"""Record files, the same as the load tester's: append-only JSON lines, rotated and bounded in size."""

from __future__ import annotations

import atexit
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TextIO
from weakref import WeakSet

from phasemeter.core.clock import NS_PER_S, PROCESS_ANCHOR, now_ns
from phasemeter.core.errors import UsageError
from phasemeter.core.record import Issued, header_line, issued_line, record_line
from phasemeter.core.timeline import Timeline
from phasemeter.transports.request import RequestInfo

_FLUSH_EVERY_NS = NS_PER_S


class RecordSink:
    """Appends an `issued` line for each request and a record line for each response.

    A file that would grow over its bound is renamed to `PATH.1` (that to `PATH.2`, and so on) and a new
    one begins with its own header; a request may so be issued in one file and recorded in the next.
    A file that is there already is kept in the same way. A forked child writes to `PATH-<pid>`. Lines are
    flushed when a write finds the last flush more than a second old, at close and at exit. Thread-safe.

    Args:
        path: File to write to; its folder is made if need be.
        max_bytes: Bound of one file.
        keep: Older files kept; the oldest goes.
        about: Further fields of the header lines.

    Raises:
        UsageError: If a bound is not positive or the file cannot be written.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        max_bytes: int = 64 * 1024 * 1024,
        keep: int = 4,
        about: Mapping[str, str | int] = MappingProxyType({}),
    ) -> None:
        if max_bytes < 1:
            msg = f"max_bytes must be >= 1, got {max_bytes}"
            raise UsageError(msg)
        if keep < 0:
            msg = f"keep must be >= 0, got {keep}"
            raise UsageError(msg)
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._keep = keep
        self._about = {"pid": os.getpid(), **about}
        self._lock = RLock()
        self._file: TextIO | None = None
        self._written_bytes = 0
        self._is_fresh = True
        self._closed = False
        self._flushed_ns = now_ns()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if self._path.exists() and self._path.stat().st_size:
                self._shift()
            self._open()
        except OSError as fault:
            msg = f"path: {self._path} cannot be written ({fault.strerror}); give a writable file"
            raise UsageError(msg) from fault
        atexit.register(self.close)
        _sinks.add(self)

    def started(self, request: RequestInfo) -> None:
        """Write the line that says a request was started."""
        self._write(issued_line(Issued(request.request_id, request.started_ns, request.tags)))

    def finished(self, timeline: Timeline, state: object) -> None:
        """Write the record of a response."""
        del state
        self._write(record_line(timeline))

    def flush(self) -> None:
        """Hand everything written so far to the system."""
        with self._lock:
            if self._file is not None:
                self._file.flush()
                self._flushed_ns = now_ns()

    def close(self) -> None:
        """Flush and close; later lines are dropped."""
        atexit.unregister(self.close)
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, line: str) -> None:
        with self._lock:
            if self._closed:
                return
            if self._file is None:
                self._open()  # the last rotation failed half-way; each line tries again
            file = self._file
            is_full = self._written_bytes + len(line) + 1 > self._max_bytes
            try:
                if file is not None and is_full and not self._is_fresh:
                    self._rotate(file)
            finally:
                self._append(line)
            self._is_fresh = False
            if now_ns() - self._flushed_ns >= _FLUSH_EVERY_NS:
                self.flush()

    def _before_fork(self) -> None:
        self._lock.acquire()
        if self._file is not None:
            self._file.flush()

    def _after_fork_in_parent(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        self._lock = RLock()
        if self._file is not None:
            self._file.close()  # nothing is buffered: it was flushed before the fork
            self._file = None
        self._path = self._path.with_name(f"{self._path.name}-{os.getpid()}")
        self._about = {**self._about, "pid": os.getpid()}

    def _rotate(self, file: TextIO) -> None:
        """Begin a new file; where the old one cannot be put away it grows by as much again."""
        self._written_bytes = 0
        file.flush()
        self._shift()
        file.close()
        self._file = None
        self._open()

    def _open(self) -> None:
        self._file = self._path.open("w", encoding="ascii", newline="\n")
        self._written_bytes = 0
        self._append(header_line(PROCESS_ANCHOR, self._about))
        self._is_fresh = True

    def _append(self, line: str) -> None:
        if self._file is not None:
            self._file.write(line + "\n")
            self._written_bytes += len(line) + 1

    def _shift(self) -> None:
        """Rename PATH to PATH.1, PATH.1 to PATH.2 and so on; what would go past `keep` is removed."""
        if not self._keep:
            self._path.unlink()
            return
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


_sinks: WeakSet[RecordSink] = WeakSet()


def _for_each_sink(step: Callable[[RecordSink], None]) -> Callable[[], None]:
    def run() -> None:
        for sink in list(_sinks):
            step(sink)

    return run


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_for_each_sink(RecordSink._before_fork),
        after_in_parent=_for_each_sink(RecordSink._after_fork_in_parent),
        after_in_child=_for_each_sink(RecordSink._after_fork_in_child),
    )
