"""Results of the comparison: one run of one tool, and what is made of several."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.peers.tool import Reported
from benchmarks.truth_figures import Span, TruthFigures

ERRORS = {
    "ttft_p50_error_ms": "ttft_p50_ms",
    "ttft_p99_error_ms": "ttft_p99_ms",
    "gap_p99_error_ms": "gap_p99_ms",
    "gap_max_error_ms": "gap_max_ms",
}
COSTS = (
    *("zero_gaps", "cpu_us_per_event", "waits_per_event", "parse_us", "reading_us"),
    *("cpu_s", "around_s", "peak_rss_mb"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one tool against a fresh server.

    Attributes:
        tool: Its name.
        users: Requests in flight.
        round: Which round, from 1.
        failure: Why there are no figures, or None.
        truth: What the server saw.
        reported: What the tool said.
        cpu_s: CPU time of the tool's whole process tree, start and end included.
        load_cpu_s: The part of it within the load; None where it could not be told apart.
        load_waits: How often its threads went to wait within the load; None likewise.
        wall_s: Time from the tool's start to its end.
        peak_rss_bytes: Largest sum of resident sizes of its processes.
    """

    tool: str
    users: int
    round: int
    failure: str | None = None
    truth: TruthFigures | None = None
    reported: Reported | None = None
    cpu_s: float | None = None
    load_cpu_s: float | None = None
    load_waits: float | None = None
    wall_s: float | None = None
    peak_rss_bytes: int | None = None

    def error_ms(self, figure: str) -> float | None:
        """Return reported minus true for a figure's name, such as `gap_p99_ms`."""
        said: float | None = None if self.reported is None else getattr(self.reported, figure)
        true: Span | None = None if self.truth is None else getattr(self.truth, figure)
        return None if said is None or true is None else true.distance_ms(said)

    def figures(self) -> dict[str, float | None]:
        """Return errors and costs by name; None for what is not known."""
        figures = {name: self.error_ms(figure) for name, figure in ERRORS.items()}
        truth, load_cpu_s = self.truth, self.load_cpu_s
        figures["zero_gaps"] = None if self.reported is None else self.reported.zero_gaps
        figures["cpu_us_per_event"] = (
            None if truth is None or load_cpu_s is None else load_cpu_s * 1e6 / truth.token_events
        )
        figures["waits_per_event"] = (
            None
            if truth is None or self.load_waits is None
            else self.load_waits / truth.token_events
        )
        figures["parse_us"] = None if self.reported is None else self.reported.parse_us
        figures["reading_us"] = None if self.reported is None else self.reported.reading_us
        figures["cpu_s"] = self.cpu_s
        figures["around_s"] = (
            None if truth is None or self.wall_s is None else self.wall_s - truth.load_s
        )
        rss = self.peak_rss_bytes
        figures["peak_rss_mb"] = None if rss is None else rss / 1e6
        return figures


@dataclass(frozen=True, slots=True)
class Rung:
    """The highest load at which a tool's gap p99 was within the limit.

    Attributes:
        tool: Its name.
        users: Streams at 50 tokens/s; None if even the first rung failed.
        failed_at: First load past the limit; None if the ladder ended before.
        why: What ended the climb.
    """

    tool: str
    users: int | None
    failed_at: int | None
    why: str


@dataclass(slots=True)
class Comparison:
    """Everything that one session measured.

    Attributes:
        date: Day of the session.
        machine: What it ran on, by name.
        settings: Load and pacing.
        versions: Version of each tool.
        notes: What a reader of a tool's row must know.
        unavailable: Why a tool has no row of figures.
        rounds: Results of the rounds.
        busy: Results with a busy process on the client's core.
        ladder: Results of the ladder.
        rungs: What the ladder came to.
    """

    date: str
    machine: Mapping[str, str]
    settings: Mapping[str, object]
    versions: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    rounds: list[Result] = field(default_factory=list)
    busy: list[Result] = field(default_factory=list)
    ladder: list[Result] = field(default_factory=list)
    rungs: list[Rung] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Comparison:
        """Read what `save` wrote.

        Raises:
            OSError: If it cannot be read.
        """
        document = json.loads(path.read_text())
        for name in ("rounds", "busy", "ladder"):
            document[name] = [_result(one) for one in document[name]]
        document["rungs"] = [Rung(**one) for one in document["rungs"]]
        return cls(**document)


def _result(document: dict[str, object]) -> Result:
    truth, reported = document.pop("truth"), document.pop("reported")
    return Result(
        **document,  # type: ignore[arg-type]
        truth=None if truth is None else _truth(truth),  # type: ignore[arg-type]
        reported=None if reported is None else Reported(**reported),  # type: ignore[arg-type]
    )


def _truth(document: dict[str, object]) -> TruthFigures:
    spans = {name: Span(**document[name]) for name in ERRORS.values()}  # type: ignore[arg-type]
    return TruthFigures(**{**document, **spans})  # type: ignore[arg-type]


def summarise(results: Sequence[Result]) -> dict[str, float | None]:
    """Return the median of each figure over the rounds; errors by their size, without sign."""
    medians: dict[str, float | None] = {}
    for name in (*ERRORS, *COSTS):
        values = _known(result.figures()[name] for result in results)
        sizes = [abs(value) for value in values] if name in ERRORS else values
        medians[name] = median(sizes) if sizes else None
    return medians


def by_tool(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return the results of each tool, in order of first appearance."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.tool, []).append(result)
    return groups


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
