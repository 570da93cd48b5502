"""Which gaps the application may have moved, told from how long the bytes of each read may have waited for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import compress, count

from phasemeter.core.consumer import LATE_SHARE
from phasemeter.core.timeline import Timeline
from phasemeter.core.token_events import TokenEvents


def judged(
    timeline: Timeline, waited_ns: Mapping[int, int], shared_reads: Collection[int] = ()
) -> TokenEvents:
    """Return the events of a response, marked where the application limited the gap before their read.

    The bytes of a read that waited came at some time while the application was away, and so did the
    read's events: the gap before it may be too long by that, and the gap after it too short. A gap is
    limited where that may be a tenth of it, or more. A kernel
    stamp is that of a read's last bytes. So it is exact for an event that came alone, and at the end of
    a read of several for the gap that follows.

    Args:
        timeline: The response.
        waited_ns: How long the bytes of a read may have waited, by the time of the read.
        shared_reads: Reads that brought more than whole token events.
    """
    events = timeline.columns
    times_ns, reads = events.times_ns, events.reads
    last_index = len(events) - 1
    limited: set[int] = set()
    for index in compress(count(), map(waited_ns.__contains__, times_ns)):
        read, late_ns = reads[index], waited_ns[times_ns[index]]
        ends_exact = timeline.stamp_source == "kernel" and read not in shared_reads
        is_first = index == 0 or reads[index - 1] != read
        is_last = index == last_index or reads[index + 1] != read
        judges_before = is_first and index > 0 and not (ends_exact and is_last)
        judges_after = is_last and index < last_index and not ends_exact
        if judges_before and times_ns[index] - times_ns[index - 1] <= LATE_SHARE * late_ns:
            limited.add(read)
        if judges_after and times_ns[index + 1] - times_ns[index] <= LATE_SHARE * late_ns:
            limited.add(reads[index + 1])
    marks = list(map(limited.__contains__, reads)) if limited else ()
    return TokenEvents(times_ns, events.kinds, events.tokens, reads, marks)
