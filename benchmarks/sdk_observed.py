"""What a tool let out during one scenario, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SpanSeen:
    """One span, or what stands for one.

    Attributes:
        name: Its name.
        is_root: Whether it has no parent in this scenario.
        start_unix_ns: Start, ns since the epoch.
        end_unix_ns: End.
        status: `UNSET`, `OK` or `ERROR`.
        attributes: Values by name.
        events: (name, ns since the epoch) of each event.
    """

    name: str
    is_root: bool
    start_unix_ns: int
    end_unix_ns: int
    status: str
    attributes: Mapping[str, Any]
    events: Sequence[tuple[str, int]] = ()

    @property
    def error_type(self) -> str | None:
        """`error.type`, where there is one."""
        found = self.attributes.get("error.type")
        return None if found is None else str(found)


@dataclass(frozen=True, slots=True)
class MetricSeen:
    """The samples of one histogram.

    Attributes:
        name: Name of the metric.
        count: Samples.
        total: Their sum, in the metric's unit.
    """

    name: str
    count: int
    total: float


@dataclass(frozen=True, slots=True)
class Observed:
    """One scenario with one tool.

    Attributes:
        raised: Class of the exception that reached the user, or None.
        spans: Every span, in order of their ends.
        when: When they came: `at once` as the user left the stream, `a little later`, `when collected`
            (the stream object), `with the next request`; None for never.
        metrics: Histograms.
        chunks: Chunks that the user got.
        last_chunk_unix_ns: When the user got the last one.
        sent_last_unix_ns: When the server had sent its last chunk.
        facts: What was found out about types and methods.
    """

    raised: str | None = None
    spans: Sequence[SpanSeen] = ()
    when: str | None = None
    metrics: Sequence[MetricSeen] = ()
    chunks: int = 0
    last_chunk_unix_ns: int | None = None
    sent_last_unix_ns: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Observed:
        """Read what `document` returned."""
        return cls(
            **{
                **document,
                "spans": tuple(SpanSeen(**one) for one in document["spans"]),
                "metrics": tuple(MetricSeen(**one) for one in document["metrics"]),
            }
        )

    @property
    def roots(self) -> list[SpanSeen]:
        """Spans without a parent: one for a request, as it should be."""
        return [span for span in self.spans if span.is_root]

    def attribute(self, name: str) -> Any:
        """Return the first value of a span attribute, or None."""
        found = (span.attributes[name] for span in self.spans if name in span.attributes)
        return next(found, None)

    def mean(self, metric: str) -> float | None:
        """Return the mean of a histogram, or None where it has no samples."""
        found = next((one for one in self.metrics if one.name == metric and one.count), None)
        return None if found is None else found.total / found.count

    def count(self, metric: str) -> int:
        """Return how many samples a histogram has."""
        return sum(one.count for one in self.metrics if one.name == metric)

    def event_s(self, name: str) -> float | None:
        """Return the time from its span's start to the first event of a name, s."""
        for span in self.spans:
            for event, unix_ns in span.events:
                if event == name:
                    return (unix_ns - span.start_unix_ns) / 1e9
        return None
