"""Whether a process that timed many streams has kept anything of them."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import psutil

_FEWEST_SAMPLES = 6
_WARM_UP_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class Sample:
    """The process after so many streams, once the collector has run and free memory was given back.

    Attributes:
        streams: Streams so far.
        rss_bytes: Resident size.
        blocks: Blocks in use in Python's allocator: every small object has one.
        objects: Objects that the collector knows.
        files: Open files.
        malloc_bytes: Bytes in use in the C library's allocator, which has what is larger than Python's
            blocks; None where it does not tell.
    """

    streams: int
    rss_bytes: int
    blocks: int
    objects: int
    files: int
    malloc_bytes: int | None = None

    @classmethod
    def take(cls, streams: int) -> Sample:
        """Look at this process."""
        gc.collect()
        give_back_free_memory()
        process = psutil.Process()
        return cls(
            streams,
            process.memory_info().rss,
            sys.getallocatedblocks(),
            len(gc.get_objects()),
            process.num_fds(),
            malloc_in_use_bytes(),
        )


class _MallocInfo(ctypes.Structure):
    """What `mallinfo2` of glibc 2.33 and later returns."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def malloc_in_use_bytes() -> int | None:
    """Return what is allocated and not freed in the C library, or None where it does not tell."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return None
    ask.restype = _MallocInfo
    told = ask()
    return int(told.uordblks + told.hblkhd)


def give_back_free_memory() -> None:
    """Have the C library give free pages back to the system, where it can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold.

    Attributes:
        what: What was looked at.
        found: What was found, in words.
        holds: Whether it is as it must be.
    """

    what: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Growth:
    """What may be taken for no growth: so much a stream, or so much altogether in a short run.

    A leak of one small object a stream takes a block and some 100 bytes or more, each time.
    """

    each: float
    least: float

    def allows(self, risen: float, streams: int) -> bool:
        """Tell whether a rise over so many streams is within."""
        return risen <= max(self.least, self.each * streams)


RSS = Growth(each=100.0, least=4_000_000)
MALLOC = Growth(each=10.0, least=500_000)
BLOCKS = Growth(each=0.25, least=600)
OBJECTS = Growth(each=0.1, least=300)
FILES = Growth(each=0.0, least=0.0)


def growth_checks(
    samples: Sequence[Sample], control: Sequence[Sample] | None = None
) -> list[Check]:
    """Check what rises with the streams after the first third, which is warm-up.

    The rise is the median slope between two samples, times the streams: one odd sample does not matter.

    Args:
        samples: In order, six or more.
        control: Those of the bare client in the same run. What the resident size rises there, or goes
            up and down by, is the allocator's and the client's own, and is taken off.

    Raises:
        ValueError: If there are too few samples.
    """
    judged = _judged(samples)
    streams = judged[-1].streams - judged[0].streams
    rss_bytes = _risen(judged, lambda one: one.rss_bytes)
    blocks = _risen(judged, lambda one: one.blocks)
    objects = _risen(judged, lambda one: one.objects)
    files = _risen(judged, lambda one: one.files)
    over = f" over {streams:,} streams"
    resident = f"{judged[-1].rss_bytes / 1e6:.1f} MB, {rss_bytes / 1e6:+.2f} MB{over}"
    own_bytes = rss_bytes
    if control is not None:
        bare = _judged(control)
        bare_bytes = _risen(bare, lambda one: one.rss_bytes)
        bare_bytes *= streams / (bare[-1].streams - bare[0].streams)
        sizes = [one.rss_bytes for one in bare]
        swing_bytes = max(sizes) - min(sizes)
        own_bytes -= max(bare_bytes, swing_bytes)
        resident += (
            f"; the bare client {bare_bytes / 1e6:+.2f} MB, up and down by {swing_bytes / 1e6:.2f}"
        )
    checks = [Check("resident memory", resident, RSS.allows(own_bytes, streams))]
    if all(one.malloc_bytes is not None for one in judged):
        malloc_bytes = _risen(judged, lambda one: one.malloc_bytes or 0)
        in_use = (
            f"{(judged[-1].malloc_bytes or 0) / 1e6:.2f} MB, {malloc_bytes / 1e6:+.3f} MB{over}"
        )
        checks.append(Check("malloc in use", in_use, MALLOC.allows(malloc_bytes, streams)))
    return [
        *checks,
        Check(
            "blocks in use",
            f"{judged[-1].blocks:,}, {blocks:+,.0f}{over}",
            BLOCKS.allows(blocks, streams),
        ),
        Check(
            "objects",
            f"{judged[-1].objects:,}, {objects:+,.0f}{over}",
            OBJECTS.allows(objects, streams),
        ),
        Check("open files", f"{judged[-1].files}, {files:+,.0f}", FILES.allows(files, streams)),
    ]


def equal_check(what: str, found: int, wanted: int) -> Check:
    """Return a check that a count is as wanted."""
    return Check(what, f"{found:,} of {wanted:,}", found == wanted)


def _judged(samples: Sequence[Sample]) -> Sequence[Sample]:
    if len(samples) < _FEWEST_SAMPLES:
        msg = f"samples: {_FEWEST_SAMPLES} or more are needed, got {len(samples)}"
        raise ValueError(msg)
    return samples[round(len(samples) * _WARM_UP_SHARE) :]


def _risen(samples: Sequence[Sample], figure: Callable[[Sample], int]) -> float:
    slopes = [
        (figure(later) - figure(earlier)) / (later.streams - earlier.streams)
        for earlier, later in combinations(samples, 2)
    ]
    return median(slopes) * (samples[-1].streams - samples[0].streams)
