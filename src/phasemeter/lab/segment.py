"""Named shared memory that survives neither its owner's exit nor its owner's kill.

A segment is a file in the system's memory file system, mapped by owner and readers. The owner
holds a file lock on it for life; a segment that can be locked has lost its owner, whatever ended
it, and the next engine to start removes it. (The standard library's shared memory would add a
tracker process, and would unlink an owner's memory when a reader exits.)
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

_PREFIX = "phasemeter-lab-"


def segment_folder() -> Path:
    """Return the folder of segments: memory-backed where the system has such a one."""
    memory_backed = Path("/dev/shm")  # the place POSIX shared memory has on Linux
    return memory_backed if memory_backed.is_dir() else Path(tempfile.gettempdir())


class OwnedSegment:
    """A new segment; removed by `close`, or by the next engine's start after a kill.

    Args:
        size_bytes: Size; memory is taken when pages are first written.

    Raises:
        ValueError: The folder has less room than `size_bytes`. Without this check, the first
            write past the room would end the process with a bus error.
    """

    def __init__(self, size_bytes: int) -> None:
        folder = segment_folder()
        room = os.statvfs(folder)
        room_bytes = room.f_bavail * room.f_frsize
        if size_bytes > room_bytes:
            msg = (
                f"the KV cache needs {size_bytes / 2**20:.0f} MiB of shared memory, {folder} has "
                f"{room_bytes / 2**20:.0f} MiB; lower max_num_seqs or max_model_len"
            )
            raise ValueError(msg)
        self.name, self._descriptor = _create_locked(folder)
        os.ftruncate(self._descriptor, size_bytes)
        self.buffer = memoryview(mmap.mmap(self._descriptor, size_bytes))

    def close(self) -> None:
        """Remove the name and the lock; the memory goes with the last mapping. Idempotent."""
        if self._descriptor < 0:
            return
        with suppress(FileNotFoundError):
            (segment_folder() / self.name).unlink()
        os.close(self._descriptor)
        self._descriptor = -1


def _create_locked(folder: Path) -> tuple[str, int]:
    while True:
        name = f"{_PREFIX}{uuid.uuid4().hex[:12]}"
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another starting engine may have taken it for stale between creation and lock.
        if os.fstat(descriptor).st_nlink > 0:
            return name, descriptor
        os.close(descriptor)


def open_segment(name: str) -> memoryview | None:
    """Map another engine's segment, writable; None when there is none of that name."""
    if not name.startswith(_PREFIX) or Path(name).name != name:
        return None
    try:
        descriptor = os.open(segment_folder() / name, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        return memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size))
    finally:
        os.close(descriptor)


def segment_exists(name: str) -> bool:
    """Return whether a segment of that name is still there."""
    return (segment_folder() / name).exists()


def remove_stale_segments() -> list[str]:
    """Remove the segments whose owners are gone; return their names."""
    removed = []
    for path in segment_folder().glob(_PREFIX + "*"):
        with suppress(OSError):  # gone meanwhile, another user's, or locked by a living owner
            descriptor = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                removed.append(path.name)
            finally:
                os.close(descriptor)
    return removed
