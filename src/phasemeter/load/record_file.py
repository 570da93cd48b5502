"""Writes a worker's record file: append-only, flushed at least every second."""

from __future__ import annotations

import os
from pathlib import Path

from phasemeter.core.clock import NS_PER_S, PROCESS_ANCHOR, now_ns
from phasemeter.core.record import Issued, header_line, issued_line, record_line
from phasemeter.core.timeline import Timeline


class RecordFile:
    """`records-<writer>.jsonl` of a run folder.

    Raises:
        FileExistsError: If the run already has a file of that writer.
        OSError: If the file cannot be written.
    """

    def __init__(self, folder: Path, writer: int) -> None:
        self._file = (folder / f"records-{writer}.jsonl").open("x", encoding="utf-8")
        self._flushed_ns = 0
        self._write(header_line(PROCESS_ANCHOR, {"worker": writer, "pid": os.getpid()}))
        self.flush()

    def issued(self, issued: Issued) -> None:
        """Note that a request was started."""
        self._write(issued_line(issued))

    def finished(self, timeline: Timeline) -> None:
        """Append the record of a response that has ended."""
        self._write(record_line(timeline))

    def flush_if_due(self, t_ns: int) -> None:
        """Hand written lines to the system if that was last done half a second ago."""
        if t_ns - self._flushed_ns >= NS_PER_S // 2:
            self.flush()

    def flush(self) -> None:
        """Hand all written lines to the system."""
        self._file.flush()
        self._flushed_ns = now_ns()

    def close(self) -> None:
        """Flush and close."""
        self._file.close()

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")
