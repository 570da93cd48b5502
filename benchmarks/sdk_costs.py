"""What was measured of the cost of tracing SDKs, and the figures made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU time of one block of streams.

    Attributes:
        tool: Name of the row.
        how: `sync` or `async`.
        chunks: Tokens a stream, each in a chunk of its own.
        round: Which round, from 1.
        cpu_us: CPU time of the process, all threads, us a stream.
        bare_us: The same of the bare client, just before and after.
    """

    tool: str
    how: str
    chunks: int
    round: int
    cpu_us: float
    bare_us: float


@dataclass(frozen=True, slots=True)
class Hold:
    """How long one callback held the event loop, median over several streams, ms.

    Attributes:
        tool: Name of the row.
        chunks: Tokens a stream.
        end_ms: Longest from the last read until nothing was left to do, CPU time.
        end_max_ms: The same, the worst stream.
        end_wall_ms: The same, wall time.
        before_ms: Longest before the last read, request and headers left out, CPU time.
    """

    tool: str
    chunks: int
    end_ms: float
    end_max_ms: float
    end_wall_ms: float
    before_ms: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the quartiles around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Return the spread of values; None of none."""
        if not values:
            return None
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, _, high = quantiles(values, n=4, method="inclusive")
        return cls(median(values), low, high)


BUDGET_SHARE = 0.05
"""Of the bare client's CPU, for a stream of 100 chunks with spans and HDR histograms (docs/adr/0010)."""


@dataclass(slots=True)
class Overhead:
    """Everything that one session measured.

    Attributes:
        date: Day of the session.
        commit: What was measured of this tree.
        machine: What it ran on, by name.
        versions: Version of each row's distribution.
        notes: What a reader of a row must know.
        baselines: Name of the bare row of each row.
        records_chunks: Rows that record a metric sample for each chunk.
        unavailable: Why a row has no figures.
        costs: Blocks of streams.
        holds: Held loops.
        hot_path_us: Cost of our hot path, us a chunk.
    """

    date: str
    commit: str
    machine: Mapping[str, str]
    versions: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    baselines: dict[str, str] = field(default_factory=dict)
    records_chunks: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    hot_path_us: float | None = None

    @property
    def tools(self) -> list[str]:
        """Rows with figures, bare ones left out, in order."""
        bare = set(self.baselines.values())
        return [name for name in self.baselines if name not in bare]

    def added_us(self, tool: str, how: str, chunks: int) -> Spread | None:
        """Return the CPU time added to the bare client, us a chunk, over the rounds."""
        found = self._costs_of(tool, how, chunks)
        return Spread.of([(one.cpu_us - one.bare_us) / chunks for one in found])

    def bare_us(self, how: str, chunks: int, tool: str = "bare") -> Spread | None:
        """Return the CPU time of a bare client, us a chunk."""
        return Spread.of([one.cpu_us / chunks for one in self._costs_of(tool, how, chunks)])

    def share_of_bare(self, tool: str, how: str, chunks: int) -> float | None:
        """Return the CPU time added to the bare client as a share of what that one takes."""
        added = self.added_us(tool, how, chunks)
        bare = self.bare_us(how, chunks, self.baselines.get(tool, "bare"))
        return None if added is None or bare is None else added.median / bare.median

    def fixed_us(self, tool: str, how: str, few: int, many: int) -> tuple[float, float] | None:
        """Split the added cost into (us a chunk, us a stream) by two lengths of streams."""
        short, long = self.added_us(tool, how, few), self.added_us(tool, how, many)
        if short is None or long is None:
            return None
        each = (long.median * many - short.median * few) / (many - few)
        return each, short.median * few - each * few

    def hold(self, tool: str, chunks: int) -> Hold | None:
        """Return how long a tool held the loop."""
        found = (one for one in self.holds if (one.tool, one.chunks) == (tool, chunks))
        return next(found, None)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Overhead:
        """Read what `save` wrote.

        Raises:
            OSError: If it cannot be read.
        """
        document = json.loads(path.read_text())
        document["costs"] = [Cost(**one) for one in document["costs"]]
        document["holds"] = [Hold(**one) for one in document["holds"]]
        return cls(**document)

    def _costs_of(self, tool: str, how: str, chunks: int) -> list[Cost]:
        wanted = (tool, how, chunks)
        return [one for one in self.costs if (one.tool, one.how, one.chunks) == wanted]


def cheapest(names: Iterable[str], figures: Mapping[str, Spread | None]) -> str | None:
    """Return the name with the smallest median, or None where none has one."""
    known = {name: spread.median for name in names if (spread := figures.get(name)) is not None}
    return min(known, key=lambda name: known[name]) if known else None
