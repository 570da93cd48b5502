"""The shapes of the JSON documents that analyses return; plain dictionaries, typed here once.

A value that could not be measured is None, never 0. Times in milliseconds unless a name says otherwise.
"""

from __future__ import annotations

from typing import Literal, TypedDict

ValidityVerdict = Literal["valid", "suspect", "invalid"]


class Percentiles(TypedDict):
    """Percentiles of one metric in ms; all None where count is 0.

    `clamped` counts samples outside 1 us to 1 h, which were moved to the nearer bound.
    """

    count: int
    p50: float | None
    p90: float | None
    p99: float | None
    p999: float | None
    max: float | None
    unit: Literal["ms"]
    clamped: int


class RequestCounts(TypedDict):
    """Requests by outcome; issued is the sum of the others or the run is invalid."""

    issued: int
    ok: int
    error: int
    truncated: int
    empty: int
    cancelled: int
    abandoned: int
    in_flight: int


class ClassSummary(TypedDict):
    """Requests and latencies of one request class; latencies over outcome ok only."""

    requests: RequestCounts
    metrics: dict[str, Percentiles]


class GroupSummary(TypedDict):
    """What is told of any group of requests: a whole run, or one arm of an experiment."""

    requests: RequestCounts
    metrics: dict[str, Percentiles]
    classes: dict[str, ClassSummary]
    coalesced_events: int
    errors: dict[str, int]


class Rates(TypedDict):
    """Rates over one window, of responses with outcome ok.

    `start_s` and `end_s` count from the first request issued. `output_tokens_per_s` is None where a
    response in the window does not tell its tokens.
    """

    start_s: float
    end_s: float
    duration_s: float
    requests_per_s: float
    output_tokens_per_s: float | None
    token_events_per_s: float


class Throughput(TypedDict):
    """Rates over the whole run and over the steady window; None where there is no such window."""

    whole: Rates | None
    steady: Rates | None
    tokens_from: Literal["events", "usage", "mixed", "unknown"]


class Detection(TypedDict):
    """Something that was noticed in a run and says how to read its figures.

    `share` is the share of streams, events, tokens or requests concerned, 0 to 1.
    """

    kind: str
    text: str
    share: float


class Validity(TypedDict):
    """Whether the figures can be believed, with every reason against it."""

    verdict: ValidityVerdict
    reasons: list[str]


class Summary(GroupSummary):
    """The document of `phasemeter report --json`."""

    throughput: Throughput
    stamp_source: str | None
    detections: list[Detection]
    validity: Validity
