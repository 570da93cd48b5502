"""A metrics page in the Prometheus text format, as samples by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from prometheus_client.parser import text_string_to_metric_families

Page = Mapping[str, Sequence[tuple[Mapping[str, str], float]]]
"""(labels, value) of each sample, by the sample's name; buckets and NaN are left out."""


def parse_page(text: str) -> Page:
    """Read a metrics page.

    Buckets, most of a page's lines, are skipped: they begin too high to tell a queue's time.

    Raises:
        ValueError: If the text is not in the Prometheus format.
    """
    lines = (line for line in text.splitlines() if "_bucket{" not in line)
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in text_string_to_metric_families("\n".join(lines)):
        for sample in family.samples:
            if not math.isnan(sample.value):
                samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples
