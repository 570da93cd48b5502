"""Percentile distribution files (.hgrm), as HdrHistogram itself prints them, in milliseconds."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

_US_PER_MS = 1_000
_DEVIATION = re.compile(r"(StdDeviation   = )\s*([0-9.]+)")


def hgrm_text(histogram: HdrHistogram) -> str:
    """Return the percentile distribution of a histogram in ms."""
    buffer = io.BytesIO()
    histogram.output_percentile_distribution(buffer, _US_PER_MS)
    # The Python port scales the values to ms but leaves the standard deviation in us.
    return _DEVIATION.sub(_scaled, buffer.getvalue().decode("ascii"))


def _scaled(match: re.Match[str]) -> str:
    return f"{match[1]}{float(match[2]) / _US_PER_MS:12.3f}"


def write_hgrm(folder: Path, histograms: Mapping[str, HdrHistogram]) -> list[Path]:
    """Write one file a tag into a folder, which is made where it is missing; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for tag, histogram in histograms.items():
        path = folder / f"{tag.replace('/', '-')}.hgrm"
        path.write_text(hgrm_text(histogram), encoding="ascii")
        paths.append(path)
    return paths
