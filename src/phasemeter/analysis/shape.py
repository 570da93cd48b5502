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


class WorkerHealth(TypedDict):
    """One load process about itself; shares from 0 to 1, of one core where they are of CPU time.

    `cpu_wait_share` is the share of its time in which it was ready and another process had its core.
    """

    worker: int
    ended: str
    cpu_share: float | None
    cpu_wait_share: float | None
    cpus: list[int] | None
    loop_lag_p99_ms: float | None
    wake_lag_p99_ms: float | None
    read_lag_p99_ms: float | None
    send_lag_p99_ms: float | None


class Health(TypedDict):
    """How well the measuring itself went.

    `lags` holds, merged over the workers, `loop_lag` (time that a turn of the loop took), `wake_lag`
    (how late it came to run), `read_lag` (arrival of bytes to their reading), `parse_lag` (end of a
    response to its decoding), `send_lag` (intended to real start) and, from the records,
    `connection_wait` (start of a request to a connection that could carry it). `events_per_read` counts
    the reads that brought so many token events. `other_load_cores` is how many cores other processes
    kept busy on average, `steal_share` which share of the machine's time its hypervisor took.
    """

    workers: list[WorkerHealth]
    lags: dict[str, Percentiles]
    events_per_read: dict[str, int]
    other_load_cores: float | None
    steal_share: float | None
    governor: str | None


class ChunkRow(TypedDict):
    """Prompts of one length whose chunks were counted; `chunks` counts them by their number."""

    prompt_tokens: int
    prompts: int
    chunks: dict[str, int]


class BudgetInterval(TypedDict):
    """Tokens a step that fit the counted prompts; `at_most` is None where no prompt was cut.

    `agreeing` of the `observations` prompts fit.
    """

    at_least: int
    at_most: int | None
    agreeing: int
    observations: int


class EngineStepsSummary(TypedDict):
    """The steps of one engine as the arrivals of its streams tell them; all inferred.

    `reason` says why there are none, `budget_reason` why there is no token budget; else they are None.
    `duration` is over all steps, `decode_only` over those in which no prompt can have been computed,
    `with_prompt` over the counted chunks. `streams` is how many had a token in the median step.
    """

    arm: str
    instance: str
    reason: str | None
    steps: int | None
    unknown_steps: int | None
    streams: float | None
    duration: Percentiles | None
    decode_only: Percentiles | None
    with_prompt: Percentiles | None
    chunks: list[ChunkRow]
    token_budget: BudgetInterval | None
    budget_reason: str | None


class Spread(TypedDict):
    """Median, 90th percentile and maximum in ms; 0 is a value here."""

    p50: float
    p90: float
    max: float
    unit: Literal["ms"]


class QueueClass(TypedDict):
    """Bounds of the queue time of one class's requests.

    `with_steps` of them have a lower bound from the engine's steps, the others have 0. `width_share_p50`
    is the median of (upper - lower) / `ttft_wire`.
    """

    requests: int
    with_steps: int
    lower: Spread
    upper: Spread
    width_share_p50: float


class QueueSummary(TypedDict):
    """Queue times as the client infers them; `server_within` of `server_told` told ones lie within."""

    label: Literal["inferred"]
    classes: dict[str, QueueClass]
    server_told: int
    server_within: int


class ServerFigures(TypedDict):
    """What the instances of one role told about themselves during one condition, over all repeats.

    `reasons` says why figures are missing. `prompt_tokens_computed` are those that the role's own
    prefill worked out; at decode instances these should have come from prefill instances instead.
    `queue_time` at an instance that takes part in a hand-off holds the pull of the KV cache.
    `kv_transfers` are the hand-offs pulled. `_max` are the largest of a sample a second, of one instance.
    """

    arm: str
    condition: str
    users: int | None
    role: Literal["both", "prefill", "decode"]
    instances: int
    flavour: str | None
    reasons: list[str]
    requests: int | None
    prompt_tokens: int | None
    prompt_tokens_computed: int | None
    generation_tokens: int | None
    preemptions: int | None
    prefix_cache_queries_tokens: int | None
    prefix_cache_hits_tokens: int | None
    external_cache_queries_tokens: int | None
    external_cache_hits_tokens: int | None
    queue_time_mean_ms: float | None
    prefill_time_mean_ms: float | None
    kv_transfers: int | None
    kv_transfer_bytes: int | None
    kv_transfer_time_mean_ms: float | None
    kv_transfers_failed: int | None
    running_requests_max: int | None
    waiting_requests_max: int | None
    kv_cache_usage_max: float | None


class Summary(GroupSummary):
    """The document of `phasemeter report --json`.

    `calibration` is what a calibration showed, or what a run was given; None where it was given none.
    """

    throughput: Throughput
    stamp_source: str | None
    detections: list[Detection]
    validity: Validity
    health: Health
    steps: list[EngineStepsSummary]
    calibration: dict[str, object] | None
    queue_estimate: QueueSummary | None
    server: list[ServerFigures]
