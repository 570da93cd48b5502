"""What a load worker tells about its own work: how late it was, as histograms that merge without loss.

On the hot path a time is an append; it is counted into its histogram a little later, when the driver's
loop comes round.
"""

from __future__ import annotations

from array import array
from collections import Counter

from phasemeter.sinks.histogram import encoded, new_histogram, record_ns

_DIGITS_BITS = 11  # times of one histogram bucket, to 0.1 %, are counted together
_FEW = 512  # about 0.1 ms


class Lags:
    """Times of one kind, in ns.

    Attributes:
        add: Takes one time; an append.
    """

    def __init__(self) -> None:
        self._fresh = array("q")
        self._counts: Counter[int] = Counter()
        self._longest_ns = 0
        self.add = self._fresh.append

    def fold_some(self) -> None:
        """Count a few of the times that wait, more where many do."""
        self._fold(max(_FEW, len(self._fresh) // 16))

    def _fold(self, most: int) -> None:
        folded = self._fresh[:most]
        del self._fresh[:most]
        self._longest_ns = max(self._longest_ns, max(folded, default=0))
        self._counts.update(
            [
                t_ns >> shift << shift if (shift := t_ns.bit_length() - _DIGITS_BITS) > 0 else t_ns
                for t_ns in folded
            ]
        )

    def percentiles_ns(self) -> list[int] | None:
        """Return [p50, p99, max] by nearest rank, None without times."""
        self._fold(len(self._fresh))
        if not self._counts:
            return None
        last = self._counts.total() - 1
        return [self._at_rank(last // 2), self._at_rank(round(last * 0.99)), self._longest_ns]

    def encoded(self) -> str:
        """Return an HdrHistogram of the times in us, in its V2 compressed form as base64."""
        self._fold(len(self._fresh))
        histogram = new_histogram()
        for t_ns, count in self._counts.items():
            record_ns(histogram, t_ns, count)
        return encoded(histogram)

    def _at_rank(self, rank: int) -> int:
        seen = 0
        for t_ns, count in sorted(self._counts.items()):
            seen += count
            if seen > rank:
                return t_ns
        return self._longest_ns


class Health:
    """The lags of one driver.

    Attributes:
        loop_lag: Time that one turn of the loop took to work off what was ready.
        wake_lag: How late the loop came to run after the time at which it wanted to.
        send_lag: Start of a request minus its intended start.
        read_lag: How long what was read had waited since its arrival, where the kernel told that.
        parse_lag: From the end of a response to the end of its decoding.
    """

    def __init__(self) -> None:
        self.loop_lag = Lags()
        self.wake_lag = Lags()
        self.send_lag = Lags()
        self.read_lag = Lags()
        self.parse_lag = Lags()

    def fold_some(self) -> None:
        """Count some of the times that wait to be counted; to be called now and then."""
        for lags in self._by_name().values():
            lags.fold_some()

    def to_json(self) -> dict[str, object]:
        """Return the figures for the worker's line in the run folder."""
        kinds = self._by_name()
        figures: dict[str, object] = {
            f"{name}_ns": lags.percentiles_ns() for name, lags in kinds.items()
        }
        return {**figures, "histograms": {name: lags.encoded() for name, lags in kinds.items()}}

    def _by_name(self) -> dict[str, Lags]:
        return {
            "loop_lag": self.loop_lag,
            "wake_lag": self.wake_lag,
            "send_lag": self.send_lag,
            "read_lag": self.read_lag,
            "parse_lag": self.parse_lag,
        }
