"""What the application did between the chunks it was handed: how long it kept each, and what that hid."""

from __future__ import annotations

from collections.abc import Sequence

from phasemeter.core.clock import NS_PER_MS

_THERE_ALREADY_NS = NS_PER_MS


def consumer_view(
    stamps_ns: Sequence[int], handed_ns: Sequence[int], asked_ns: Sequence[int]
) -> tuple[list[int], frozenset[int]]:
    """Return what the application's pulls say about each read.

    A read is limited by the consumer where its bytes had been waiting for the application to ask: they
    came within 1 ms of the asking, and the application had been away for half of the gap or more. Where
    arrivals are stamped while the application is away (kernel stamps, reading ahead), the stamp lies
    before the asking and the read is not limited.

    Args:
        stamps_ns: Time of the read of each chunk; chunks of one read have the same.
        handed_ns: When each chunk was handed to the application.
        asked_ns: When the application asked for the chunk after it; may be one shorter.

    Returns:
        The time the application kept the chunks of each read, in ns, in order of the reads; and the
        indexes of the reads that the consumer limited.
    """
    waits_ns: list[int] = []
    limited: list[int] = []
    read = -1
    last_ns: int | None = None
    last_asked_ns = 0
    for index, stamp_ns in enumerate(stamps_ns):
        if stamp_ns != last_ns:
            if last_ns is not None and 0 <= stamp_ns - last_asked_ns < _THERE_ALREADY_NS:
                waited_ns = waits_ns[read] if read < len(waits_ns) else 0
                if 2 * waited_ns >= stamp_ns - last_ns:
                    limited.append(read + 1)
            read += 1
            last_ns = stamp_ns
        if index < len(asked_ns):
            last_asked_ns = asked_ns[index]
            wait_ns = last_asked_ns - handed_ns[index]
            if read < len(waits_ns):
                waits_ns[read] += wait_ns
            else:
                waits_ns.append(wait_ns)
    return waits_ns, frozenset(limited)
