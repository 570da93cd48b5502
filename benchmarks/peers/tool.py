"""What the comparison needs to know of a load tester: how to get it, start it and read its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# The truth server never sends two events of a stream within so short a time.
NO_GAP_MS = 0.1


class UnavailableError(Exception):
    """The tool cannot be had or run here; the text says why."""


@dataclass(frozen=True, slots=True)
class Load:
    """A closed loop over the completions interface, the same for every tool.

    Attributes:
        url: Root of the server, without `/v1`.
        model: Model name; also the name of the tokenizer in the hub cache.
        users: Requests in flight.
        requests: Requests in all.
        prompt_tokens: About so many tokens a prompt.
        tokens: Tokens an answer.
    """

    url: str
    model: str
    users: int
    requests: int
    prompt_tokens: int
    tokens: int

    def arguments(self, out: Path) -> list[str]:
        """Return the command-line arguments of our own client scripts; they write `result.json`."""
        return [
            *("--url", f"{self.url}/v1/completions", "--model", self.model),
            *("--users", str(self.users), "--requests", str(self.requests)),
            *("--tokens", str(self.tokens), "--prompt-tokens", str(self.prompt_tokens)),
            *("--out", str(out / "result.json")),
        ]


@dataclass(frozen=True, slots=True)
class Reported:
    """What a tool reported; None for what it does not.

    Attributes:
        requests: Requests that it counts as successful.
        ttft_p50_ms: Median time to first token; the one without connecting where the tool has both.
        ttft_p99_ms: Its p99.
        gap_p99_ms: p99 of the time between consecutive token events, over all requests.
        gap_max_ms: Longest of them.
        gaps: How many it kept.
        ttft_connecting_p50_ms: Median with connecting, from a tool that has both.
        ttft_connecting_p99_ms: Its p99.
        zero_gaps: How many are shorter than 0.1 ms, which the server never does.
        parse_us: CPU time of parsing the JSON of an event once, from a tool that says so.
        reading_us: CPU time of phasemeter's reading of an event's bytes, likewise.
    """

    requests: int | None = None
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None
    gap_p99_ms: float | None = None
    gap_max_ms: float | None = None
    gaps: int | None = None
    zero_gaps: int | None = None
    ttft_connecting_p50_ms: float | None = None
    ttft_connecting_p99_ms: float | None = None
    parse_us: float | None = None
    reading_us: float | None = None


class Tool(Protocol):
    """A load tester.

    Attributes:
        name: Short name; also that of its environment.
        package: Distribution whose version is shown; empty for none.
        note: What a reader of its row must know, or an empty text.
    """

    @property
    def name(self) -> str: ...

    @property
    def package(self) -> str: ...

    @property
    def note(self) -> str: ...

    def install(self, environment: Path) -> None:
        """Have the tool in a virtual environment of its own.

        Raises:
            UnavailableError: If it cannot be had.
        """
        ...

    def command(self, environment: Path, load: Load, out: Path) -> list[str]:
        """Return the command line that runs the load; what it writes goes below `out`."""
        ...

    def read(self, out: Path) -> Reported:
        """Return what the tool reported.

        Raises:
            OSError: If there is no result.
            KeyError: If the result does not look as expected.
            ValueError: If it cannot be parsed.
        """
        ...


def count_gaps(gaps_ms: list[float]) -> tuple[int, int]:
    """Return how many gaps there are, and how many are shorter than `NO_GAP_MS`."""
    return len(gaps_ms), sum(gap_ms < NO_GAP_MS for gap_ms in gaps_ms)
