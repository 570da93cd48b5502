"""Whether a process that timed many streams has kept anything of them; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """The process after so many streams, with the collector just run.

    Attributes:
        streams: Streams so far.
        rss_bytes: Resident size.
        objects: Objects that the collector knows.
        files: Open files.
    """

    streams: int
    rss_bytes: int
    objects: int
    files: int


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


def growth_checks(
    samples: Sequence[Sample], *, rss_limit_bytes: int, object_limit: int
) -> list[Check]:
    """Compare the last third of the samples with the third before it; the first is warm-up.

    Args:
        samples: In order, six or more.
        rss_limit_bytes: Growth of the resident size that counts as none: the allocator's grain.
        object_limit: Growth of the number of objects that counts as none.

    Raises:
        ValueError: If there are too few samples to compare.
    """
    if len(samples) < 6:
        msg = f"samples: 6 or more are needed, got {len(samples)}"
        raise ValueError(msg)
    third = len(samples) // 3
    before, after = samples[third : 2 * third], samples[-third:]
    streams = after[-1].streams - before[0].streams
    rss_bytes = _risen([one.rss_bytes for one in before], [one.rss_bytes for one in after])
    objects = _risen([one.objects for one in before], [one.objects for one in after])
    files = _risen([one.files for one in before], [one.files for one in after])
    return [
        Check(
            "resident memory",
            f"{after[-1].rss_bytes / 1e6:.1f} MB, {rss_bytes / 1e6:+.2f} MB over {streams:,} streams",
            rss_bytes <= rss_limit_bytes,
        ),
        Check(
            "objects",
            f"{after[-1].objects:,}, {objects:+,.0f} over {streams:,} streams",
            objects <= object_limit,
        ),
        Check("open files", f"{after[-1].files}, {files:+,.0f}", files <= 0),
    ]


def equal_check(what: str, found: int, wanted: int) -> Check:
    """Return a check that a count is as wanted."""
    return Check(what, f"{found:,} of {wanted:,}", found == wanted)


def _risen(before: Sequence[int], after: Sequence[int]) -> float:
    return median(after) - median(before)
