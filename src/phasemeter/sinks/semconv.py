"""Every OpenTelemetry name in one place, with units, buckets and which conventions it belongs to.

Sources: the GenAI semantic conventions 0.1.0 (client inference) and 1.41 (client operation), both in
Development. Their Python constants move with each release, so the names are written out here. Names under
`phasemeter.` are ours. Names under `gen_ai.server.` are a server's to emit and are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Semconv = Literal["0.1.0", "1.41", "both"]
SEMCONVS: tuple[Semconv, ...] = ("0.1.0", "1.41", "both")

DURATION_BUCKETS_S = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
)  # fmt: skip
TOKEN_BUCKETS = (
    1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
)  # fmt: skip
GAP_BUCKETS_S = (
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075,
    0.1, 0.15, 0.25, 0.5, 1, 2.5,
)  # fmt: skip
FIRST_TOKEN_BUCKETS_S = (
    0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10,
    20, 40, 80,
)  # fmt: skip

# Attributes of the conventions.
OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"
USAGE_REASONING_OUTPUT_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_MODALITY = "gen_ai.token.modality"
TOKEN_TYPE = "gen_ai.token.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"
HTTP_STATUS_CODE = "http.response.status_code"

# Span attributes of ours.
PHASE = "phasemeter.phase"
TIME_TO_FIRST_TOKEN = "phasemeter.time_to_first_token"
TIME_TO_FIRST_ANSWER = "phasemeter.time_to_first_answer"
GAP_P50 = "phasemeter.gap.p50"
GAP_P99 = "phasemeter.gap.p99"
GAP_MAX = "phasemeter.gap.max"
COALESCED_EVENTS = "phasemeter.coalesced_events"
CONSUMER_LIMITED_GAPS = "phasemeter.consumer_limited_gaps"
STAMP_SOURCE = "phasemeter.stamp_source"
OUTCOME = "phasemeter.outcome"
TOKEN_COUNT_SOURCE = "phasemeter.token_count.source"
TAG_PREFIX = "phasemeter.tag."

# Spans.
PREFILL_SPAN = "prefill"
DECODE_SPAN = "decode"
REASONING_SPAN = "reasoning"


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric.

    Attributes:
        name: Metric name.
        kind: Instrument.
        unit: UCUM unit.
        description: What it says.
        buckets: Advised bucket boundaries of a histogram.
        semconv: Conventions that it belongs to; None for ours, which are always emitted.
    """

    name: str
    kind: Literal["histogram", "counter", "up_down_counter"]
    unit: str
    description: str
    buckets: tuple[float, ...] = ()
    semconv: Semconv | None = None


def _duration(name: str, description: str, semconv: Semconv) -> Instrument:
    return Instrument(name, "histogram", "s", description, DURATION_BUCKETS_S, semconv)


def _count(name: str, description: str) -> Instrument:
    return Instrument(name, "counter", "{token}", description, (), "0.1.0")


def _tokens(name: str, description: str, semconv: Semconv) -> Instrument:
    return Instrument(name, "histogram", "{token}", description, TOKEN_BUCKETS, semconv)


def _ours(name: str, description: str, buckets: tuple[float, ...]) -> Instrument:
    return Instrument(f"phasemeter.client.{name}", "histogram", "s", description, buckets)


DURATION = _duration(
    "gen_ai.client.inference.duration", "Request issued to response received or error.", "0.1.0"
)
TIME_TO_FIRST_CHUNK = _duration(
    "gen_ai.client.inference.time_to_first_chunk", "Request issued to first chunk.", "0.1.0"
)
TIME_PER_OUTPUT_CHUNK = _duration(
    "gen_ai.client.inference.time_per_output_chunk", "Chunk to chunk, after the first.", "0.1.0"
)
OLD_DURATION = _duration(
    "gen_ai.client.operation.duration", "Request issued to response received or error.", "1.41"
)
OLD_TIME_TO_FIRST_CHUNK = _duration(
    "gen_ai.client.operation.time_to_first_chunk", "Request issued to first chunk.", "1.41"
)
OLD_TIME_PER_OUTPUT_CHUNK = _duration(
    "gen_ai.client.operation.time_per_output_chunk", "Chunk to chunk, after the first.", "1.41"
)
OLD_TOKEN_USAGE = _tokens("gen_ai.client.token.usage", "Tokens by type.", "1.41")
INPUT_TOKENS = _count(
    "gen_ai.client.inference.usage.input_tokens", "Prompt tokens, cached ones included."
)
OUTPUT_TOKENS = _count(
    "gen_ai.client.inference.usage.output_tokens", "Generated tokens, reasoning included."
)
CACHE_READ_TOKENS = _count(
    "gen_ai.client.inference.usage.cache_read.input_tokens", "Prompt tokens read from a cache."
)
REASONING_TOKENS = _count(
    "gen_ai.client.inference.usage.reasoning.output_tokens", "Generated reasoning tokens."
)
OPERATION_INPUT_TOKENS = _tokens(
    "gen_ai.client.inference.operation.input_tokens", "Prompt tokens of one request.", "0.1.0"
)
OPERATION_OUTPUT_TOKENS = _tokens(
    "gen_ai.client.inference.operation.output_tokens", "Generated tokens of one request.", "0.1.0"
)
CLIENT_TIME_TO_FIRST_TOKEN = _ours(
    "time_to_first_token", "First generated token of any kind - started.", FIRST_TOKEN_BUCKETS_S
)
CLIENT_TIME_TO_FIRST_ANSWER = _ours(
    "time_to_first_answer", "First answer token - started.", FIRST_TOKEN_BUCKETS_S
)
CLIENT_INTER_TOKEN_LATENCY = _ours(
    "inter_token_latency", "Gap / tokens in the later event, where known.", GAP_BUCKETS_S
)
CLIENT_TIME_PER_OUTPUT_TOKEN = _ours(
    "time_per_output_token", "Decode time / tokens after the first event.", GAP_BUCKETS_S
)
CLIENT_PREFILL_DURATION = _ours(
    "prefill.duration", "Started to first token, as the client sees it.", FIRST_TOKEN_BUCKETS_S
)
CLIENT_DECODE_DURATION = _ours(
    "decode.duration", "First token to last token.", FIRST_TOKEN_BUCKETS_S
)
CLIENT_CONSUMER_WAIT = _ours(
    "consumer_wait",
    "Time the application kept chunks before asking for more, a response.",
    FIRST_TOKEN_BUCKETS_S,
)
STREAMS_ACTIVE = Instrument(
    "phasemeter.client.streams.active",
    "up_down_counter",
    "{stream}",
    "Streamed responses in flight.",
)
SAMPLES_DROPPED = Instrument(
    "phasemeter.client.samples.dropped", "counter", "{sample}", "Samples lost to overload."
)

INSTRUMENTS: tuple[Instrument, ...] = (
    DURATION,
    TIME_TO_FIRST_CHUNK,
    TIME_PER_OUTPUT_CHUNK,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    CACHE_READ_TOKENS,
    REASONING_TOKENS,
    OPERATION_INPUT_TOKENS,
    OPERATION_OUTPUT_TOKENS,
    OLD_DURATION,
    OLD_TIME_TO_FIRST_CHUNK,
    OLD_TIME_PER_OUTPUT_CHUNK,
    OLD_TOKEN_USAGE,
    CLIENT_TIME_TO_FIRST_TOKEN,
    CLIENT_TIME_TO_FIRST_ANSWER,
    CLIENT_INTER_TOKEN_LATENCY,
    CLIENT_TIME_PER_OUTPUT_TOKEN,
    CLIENT_PREFILL_DURATION,
    CLIENT_DECODE_DURATION,
    CLIENT_CONSUMER_WAIT,
    STREAMS_ACTIVE,
    SAMPLES_DROPPED,
)


def emitted(instrument: Instrument, semconv: Semconv) -> bool:
    """Tell whether an instrument is emitted under a setting of the conventions."""
    return instrument.semconv is None or semconv in ("both", instrument.semconv)
