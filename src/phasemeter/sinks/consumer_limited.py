"""Gaps that the application made itself, by asking for the next event later than it had arrived."""

from __future__ import annotations

from itertools import pairwise

from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.timeline import Timeline


def limited_gaps(timeline: Timeline) -> int | None:
    """Count the gaps of a live Timeline that the consumer limited.

    A gap is the consumer's wait and then ours: where ours is under 1 ms and the consumer's is half of the
    gap or more, the event had been waiting in the kernel or close to it. Works on Timelines as a
    Meter hands them out, whose waits are one a read; a record file does not keep which read was which.

    Returns:
        The count, or None where the waits are not known.
    """
    waits_ns = timeline.consumer_waits_ns
    if not waits_ns:
        return None
    count = 0
    for earlier, later in pairwise(timeline.events):
        if earlier.read == later.read:
            continue
        gap_ns = later.t_ns - earlier.t_ns
        waited_ns = sum(waits_ns[earlier.read : later.read])
        if 2 * waited_ns >= gap_ns and gap_ns - waited_ns < NS_PER_MS:
            count += 1
    return count
