"""What the application did between the chunks it was handed: how long it kept each, and what that hid."""

from __future__ import annotations

from collections.abc import Callable, Collection

from phasemeter.core.clock import NS_PER_MS

LATE_SHARE = 10
"""A gap is limited where an end of it may be late by this part of it, or more."""
_THERE_ALREADY_NS = NS_PER_MS


class Consumer:
    """Follows an application's pulls. `stamps_ns`, `handed_ns` and `kept_ns` are appended by the owner.

    A read is limited by the consumer where its bytes had been waiting for the application to ask: they
    came within 1 ms of the asking, and the application had been away for half of the gap or more. Where
    arrivals are stamped while the application is away (kernel stamps, reading ahead), the stamp lies
    before the asking and the read is not limited. The read after one that had been waiting is limited
    too where the gap between them may be too short by a tenth of it or more.

    Args:
        stamps_ns: The list that the owner appends to, where there is one already.

    Attributes:
        stamps_ns: Time of the read of each chunk; chunks of one read have the same.
        handed_ns: When each chunk was handed to the application; needed only while `supposes`.
        kept_ns: How long the application kept each chunk, until it asked for the next; may be one shorter.
        waits_ns: How long the application kept the chunks of each read, in order of the reads.
        supposes: Limited reads are told from the times of the pulls; False where the owner knows better.
    """

    def __init__(self, stamps_ns: list[int] | None = None) -> None:
        self.stamps_ns = [] if stamps_ns is None else stamps_ns
        self.handed_ns: list[int] = []
        self.kept_ns: list[int] = []
        self.waits_ns: list[int] = []
        self.supposes = True
        self._limited_reads: set[int] = set()
        self._chunk = 0
        self._read = -1
        self._last_ns: int | None = None
        self._late_ns = 0  # by how much the last read may be late

    @property
    def handed(self) -> Callable[[int], None] | None:
        """Takes the time at which a chunk was handed over; None where that is not needed."""
        return self.handed_ns.append if self.supposes else None

    @property
    def limited_reads(self) -> Collection[int]:
        """Indexes of the reads that the consumer limited, by the times of its pulls."""
        return self._limited_reads if self.supposes else ()

    def digest(self, least: int = 0) -> None:
        """Work up what was appended, 0.1 to 0.3 us a chunk. May be called at any time.

        Args:
            least: Do nothing if fewer chunks were appended since the last time.
        """
        stamps_ns, kept_ns = self.stamps_ns, self.kept_ns
        if len(stamps_ns) - self._chunk < least:
            return
        new_ns = stamps_ns[self._chunk : len(kept_ns)]
        if (
            not self.supposes
            and self._read + 1 == len(self.waits_ns)
            and len({self._last_ns, *new_ns}) > len(new_ns)
        ):
            # The usual case: each chunk came in a read of its own.
            self.waits_ns += kept_ns[self._chunk : self._chunk + len(new_ns)]
            self._chunk += len(new_ns)
            self._read += len(new_ns)
            self._last_ns = new_ns[-1] if new_ns else self._last_ns
            return
        waits_ns, read, last_ns = self.waits_ns, self._read, self._last_ns
        for chunk in range(self._chunk, len(stamps_ns)):
            stamp_ns = stamps_ns[chunk]
            if stamp_ns != last_ns:
                if self.supposes and last_ns is not None:
                    gap_ns = stamp_ns - last_ns
                    if self._late_ns or 2 * waits_ns[read] >= gap_ns:
                        self._suppose(read, chunk, gap_ns)
                read += 1
                last_ns = stamp_ns
            if chunk >= len(kept_ns):
                break  # the application has it still
            if read < len(waits_ns):
                waits_ns[read] += kept_ns[chunk]
            else:
                waits_ns.append(kept_ns[chunk])
            self._chunk = chunk + 1
        self._read, self._last_ns = read, last_ns

    def _suppose(self, read: int, chunk: int, gap_ns: int) -> None:
        """Judge the gap after a read by the pulls before `chunk`, the first one of the next read."""
        away_ns = self.waits_ns[read]
        asked_ns = self.handed_ns[chunk - 1] + self.kept_ns[chunk - 1]
        was_there = 0 <= self.stamps_ns[chunk] - asked_ns < _THERE_ALREADY_NS
        had_waited = was_there and 2 * away_ns >= gap_ns
        if had_waited or LATE_SHARE * self._late_ns >= gap_ns:
            self._limited_reads.add(read + 1)
        # What was there behind a late one may have come as early as that one did.
        behind = was_there and (had_waited or self._late_ns > 0)
        self._late_ns = self._late_ns + gap_ns if behind else 0
