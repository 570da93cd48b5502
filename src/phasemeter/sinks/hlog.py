"""Writer of HdrHistogram interval logs (format 1.3), one tag a line; any HdrHistogram tool reads them.

The log format is HdrHistogram's own; the PyPI package reads it but its writer knows no tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from phasemeter.core.clock import NS_PER_S

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

_US_PER_MS = 1000
_FORBIDDEN_IN_TAG = frozenset(", \t\r\n")


def write_interval_log(
    path: Path,
    histograms: Mapping[str, HdrHistogram],
    start_unix_ns: int,
    end_unix_ns: int,
) -> None:
    """Write one interval of tagged histograms; values are in microseconds, the maximum column in ms.

    Empty histograms are written too: a count of 0 is a finding.

    Args:
        path: File to write; replaced if it exists.
        histograms: Histogram by tag.
        start_unix_ns: Start of the interval, ns since the epoch.
        end_unix_ns: End of the interval, ns since the epoch.

    Raises:
        ValueError: If a tag is empty or holds a comma or white space, or the interval is negative.
    """
    if end_unix_ns < start_unix_ns:
        msg = f"end_unix_ns must be >= start_unix_ns, got {end_unix_ns} < {start_unix_ns}"
        raise ValueError(msg)
    for tag in histograms:
        if not tag or _FORBIDDEN_IN_TAG.intersection(tag):
            msg = f"tag {tag!r}: a tag is not empty and holds no comma or white space"
            raise ValueError(msg)
    length_ns = end_unix_ns - start_unix_ns
    lines = _head(start_unix_ns)
    lines += (_line(tag, histogram, length_ns) for tag, histogram in histograms.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _head(start_unix_ns: int) -> list[str]:
    start_s = _seconds(start_unix_ns)
    when = datetime.fromtimestamp(start_unix_ns / NS_PER_S, UTC).isoformat(timespec="milliseconds")
    return [
        "#[Histogram log format version 1.3]",
        f"#[StartTime: {start_s} (seconds since epoch), {when}]",
        f"#[BaseTime: {start_s} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]


def _line(tag: str, histogram: HdrHistogram, length_ns: int) -> str:
    max_ms = histogram.get_max_value() / _US_PER_MS if histogram.get_total_count() else 0
    coded = histogram.encode().decode("ascii")
    return f"Tag={tag},0.000,{_seconds(length_ns)},{max_ms:.3f},{coded}"


def _seconds(t_ns: int) -> str:
    """Exact to the millisecond, without a float's rounding of epoch times."""
    t_ms = (t_ns + 500_000) // 1_000_000
    return f"{t_ms // 1000}.{t_ms % 1000:03d}"
