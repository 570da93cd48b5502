"""Spans that add up exactly, metrics under the names of the chosen conventions, nothing without an SDK."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from phasemeter.core.clock import now_ns
from phasemeter.core.errors import UsageError
from phasemeter.core.timeline import Outcome, Timeline, Usage
from phasemeter.core.token_events import TokenEvent
from phasemeter.sinks import RequestInfo, otel, semconv

MS = 1_000_000


def request(**changes):
    fields = {
        "request_id": "r",
        "dialect": "openai.chat",
        "operation": "chat",
        "provider": "openai",
        "model": "m",
        "server_address": "api.openai.com",
        "server_port": 443,
        "started_ns": now_ns(),
        "streamed": True,
        "tags": {"feature": "rag"},
    }
    return RequestInfo(**{**fields, **changes})


def timeline_of(info, *, kinds=("content",) * 3, **changes):
    start = info.started_ns
    events = tuple(
        TokenEvent(start + (40 + 20 * i) * MS + 7 * i, kind, 1, i + 1)
        for i, kind in enumerate(kinds)
    )
    fields = {
        "request_id": info.request_id,
        "dialect": info.dialect,
        "operation": info.operation,
        "model": info.model,
        "stamp_source": "recv",
        "started_ns": start,
        "ended_ns": start + 200 * MS + 1,
        "outcome": Outcome.OK,
        "response_model": "m-1",
        "first_event_ns": start + 10 * MS,
        "headers_ns": start + 9 * MS,
        "events": events,
        "usage": Usage(input_tokens=5, output_tokens=3, cached_input_tokens=2),
        "finish_reason": "stop",
        "http_status": 200,
        "tags": info.tags,
        "consumer_waits_ns": (MS, MS, MS, MS),
    }
    return Timeline(**{**fields, **changes})


class Telemetry:
    def __init__(self, **options):
        self.exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.sink = otel.OtelSink(
            tracer_provider=self.tracer_provider,
            meter_provider=MeterProvider([self.reader]),
            **options,
        )

    def run(self, info=None, **changes):
        info = info or request()
        state = self.sink.started(info)
        self.sink.finished(timeline_of(info, **changes), state)

    @property
    def spans(self):
        return {span.name: span for span in self.exporter.get_finished_spans()}

    @property
    def metrics(self):
        data = self.reader.get_metrics_data()
        return {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def test_prefill_and_decode_add_up_to_the_parent_until_the_last_token_exactly():
    """Integer nanoseconds: no rounding between the phases."""
    telemetry = Telemetry()

    telemetry.run()
    parent, prefill, decode = (telemetry.spans[name] for name in ("chat m", "prefill", "decode"))

    assert prefill.start_time == parent.start_time
    assert prefill.end_time == decode.start_time
    assert prefill.end_time - prefill.start_time == 40 * MS
    assert decode.end_time - decode.start_time == 40 * MS + 14
    assert parent.end_time - parent.start_time == 200 * MS + 1
    assert parent.kind is SpanKind.CLIENT
    assert prefill.kind is decode.kind is SpanKind.INTERNAL
    assert prefill.parent.span_id == decode.parent.span_id == parent.context.span_id


def test_reasoning_before_the_answer_is_a_child_of_decode():
    """From the first token to the first answer token."""
    telemetry = Telemetry()

    telemetry.run(kinds=("reasoning", "reasoning", "content"))
    decode, reasoning = telemetry.spans["decode"], telemetry.spans["reasoning"]

    assert reasoning.parent.span_id == decode.context.span_id
    assert reasoning.start_time == decode.start_time
    assert reasoning.end_time == decode.end_time  # the answer's first token is also the last


@pytest.mark.parametrize("tokens", [1, 3])
def test_a_decode_phase_of_unknown_length_has_no_span(tokens):
    """All tokens came in one read: a span of length 0 would say that it is known."""
    telemetry = Telemetry()
    info = request()
    t_ns = info.started_ns + 40 * MS
    events = tuple(TokenEvent(t_ns, "reasoning", 1, 1) for _ in range(tokens))

    telemetry.run(info, events=events)

    assert set(telemetry.spans) == {"chat m", "prefill"}
    assert telemetry.spans["prefill"].end_time - telemetry.spans["prefill"].start_time == 40 * MS


def test_without_tokens_there_is_only_prefill_ended_with_the_parent():
    """An error before the first token: both in error, with the same end."""
    telemetry = Telemetry()

    telemetry.run(kinds=(), outcome=Outcome.ERROR, error_type="overloaded", finish_reason=None)
    parent, prefill = telemetry.spans["chat m"], telemetry.spans["prefill"]

    assert set(telemetry.spans) == {"chat m", "prefill"}
    assert prefill.end_time == parent.end_time
    for span in (parent, prefill):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == "overloaded"


@pytest.mark.parametrize(
    ("outcome", "told", "error_type"),
    [
        (Outcome.OK, None, None),
        (Outcome.EMPTY, None, None),
        (Outcome.CANCELLED, None, None),
        (Outcome.CANCELLED, "asyncio.CancelledError", "asyncio.CancelledError"),
        (Outcome.TRUNCATED, None, "truncated"),
        (Outcome.TRUNCATED, "httpx.ReadError", "httpx.ReadError"),
        (Outcome.ABANDONED, None, "abandoned"),
        (Outcome.ERROR, "timeout", "timeout"),
    ],
)
def test_everything_but_ok_empty_and_a_deliberate_close_is_an_error(outcome, told, error_type):
    """Status and error.type of the request span."""
    telemetry = Telemetry()

    telemetry.run(outcome=outcome, error_type=told)
    span = telemetry.spans["chat m"]

    assert span.attributes.get("error.type") == error_type
    expected = StatusCode.UNSET if error_type is None else StatusCode.ERROR
    assert span.status.status_code is expected


def test_span_attributes_are_those_of_the_conventions_and_ours():
    """Exact set; no text of prompt or answer can be in it."""
    telemetry = Telemetry()

    telemetry.run()

    assert dict(telemetry.spans["chat m"].attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.01,
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "server.address": "api.openai.com",
        "server.port": 443,
        "http.response.status_code": 200,
        "phasemeter.time_to_first_token": 0.04,
        "phasemeter.time_to_first_answer": 0.04,
        "phasemeter.gap.p50": 0.020000007,
        "phasemeter.gap.p99": 0.020000007,
        "phasemeter.gap.max": 0.020000007,
        "phasemeter.coalesced_events": 0,
        "phasemeter.consumer_limited_gaps": 0,
        "phasemeter.stamp_source": "recv",
        "phasemeter.outcome": "ok",
        "phasemeter.token_count.source": "usage",
        "phasemeter.tag.feature": "rag",
    }


def test_the_parent_is_the_span_of_the_call_not_of_the_end():
    """The context is taken when the request starts."""
    telemetry = Telemetry()
    tracer = telemetry.tracer_provider.get_tracer("app")
    info = request()

    with tracer.start_as_current_span("caller") as caller:
        state = telemetry.sink.started(info)
    with tracer.start_as_current_span("someone else"):
        telemetry.sink.finished(timeline_of(info), state)

    assert telemetry.spans["chat m"].parent.span_id == caller.get_span_context().span_id


NEW = {
    "gen_ai.client.inference.duration",
    "gen_ai.client.inference.time_to_first_chunk",
    "gen_ai.client.inference.time_per_output_chunk",
    "gen_ai.client.inference.usage.input_tokens",
    "gen_ai.client.inference.usage.output_tokens",
    "gen_ai.client.inference.usage.cache_read.input_tokens",
    "gen_ai.client.inference.operation.input_tokens",
    "gen_ai.client.inference.operation.output_tokens",
}
OLD = {
    "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.client.operation.time_per_output_chunk",
    "gen_ai.client.token.usage",
}


@pytest.mark.parametrize(
    ("setting", "expected"), [("0.1.0", NEW), ("1.41", OLD), ("both", NEW | OLD)]
)
def test_metric_names_follow_the_setting(setting, expected):
    """And never a server's name."""
    telemetry = Telemetry(semconv=setting)

    telemetry.run()
    emitted = set(telemetry.metrics)

    assert {name for name in emitted if name.startswith("gen_ai.")} == expected
    assert {name for name in emitted if name.startswith("phasemeter.client.")} == {
        f"phasemeter.client.{name}"
        for name in (
            "time_to_first_token",
            "time_to_first_answer",
            "inter_token_latency",
            "time_per_output_token",
            "prefill.duration",
            "decode.duration",
            "consumer_wait",
            "streams.active",
        )
    }


def test_metrics_of_each_chunk_can_be_left_out():
    """All others stay."""
    telemetry = Telemetry(semconv="both", per_chunk_metrics=False)
    every = Telemetry(semconv="both")

    telemetry.run()
    every.run()

    assert set(every.metrics) - set(telemetry.metrics) == {
        "gen_ai.client.inference.time_per_output_chunk",
        "gen_ai.client.operation.time_per_output_chunk",
        "phasemeter.client.inter_token_latency",
    }


def test_the_consumers_waits_are_one_sample_a_response():
    """Four waits of 1 ms."""
    telemetry = Telemetry()

    telemetry.run()

    (point,) = telemetry.metrics["phasemeter.client.consumer_wait"].data.data_points
    assert (point.count, point.sum) == (1, pytest.approx(0.004))


def test_metric_attributes_are_an_allow_list():
    """Tags stay out unless named."""
    closed, opened = Telemetry(), Telemetry(label_allow_list=["feature"])
    basic = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-1",
        "server.address": "api.openai.com",
        "server.port": 443,
    }

    for telemetry in (closed, opened):
        telemetry.run(outcome=Outcome.TRUNCATED)

    duration, first = (
        closed.metrics[f"gen_ai.client.inference.{name}"].data.data_points[0]
        for name in ("duration", "time_to_first_chunk")
    )
    assert dict(duration.attributes) == {**basic, "error.type": "truncated"}
    assert dict(first.attributes) == basic
    point = opened.metrics["gen_ai.client.inference.time_to_first_chunk"].data.data_points[0]
    assert dict(point.attributes) == {**basic, "phasemeter.tag.feature": "rag"}


def test_buckets_and_values():
    """Boundaries of the conventions; two gaps; three tokens; ours only over ok."""
    telemetry = Telemetry()

    telemetry.run()
    telemetry.run(outcome=Outcome.CANCELLED)
    metrics = telemetry.metrics

    chunks = metrics["gen_ai.client.inference.time_per_output_chunk"].data.data_points[0]
    assert chunks.explicit_bounds == semconv.DURATION_BUCKETS_S
    assert chunks.count == 4
    itl = metrics["phasemeter.client.inter_token_latency"].data.data_points[0]
    assert itl.explicit_bounds == semconv.GAP_BUCKETS_S
    assert itl.count == 2
    assert itl.sum == pytest.approx(0.040000014)
    output = metrics["gen_ai.client.inference.usage.output_tokens"].data.data_points[0]
    assert output.value == 6
    assert output.attributes["gen_ai.token.modality"] == "unknown"
    assert metrics["phasemeter.client.streams.active"].data.data_points[0].value == 0


def test_unknown_usage_is_no_sample_of_a_distribution():
    """The counter takes the conventions' 0, which changes no sum; the histogram takes nothing."""
    telemetry = Telemetry()

    telemetry.run(usage=Usage())
    metrics = telemetry.metrics

    assert metrics["gen_ai.client.inference.usage.output_tokens"].data.data_points[0].value == 0
    assert "gen_ai.client.inference.operation.output_tokens" not in metrics
    assert "phasemeter.token_count.source" in telemetry.spans["chat m"].attributes


def test_a_call_that_was_not_streamed_has_one_span_and_no_phases():
    """Duration only."""
    telemetry = Telemetry()
    info = request(streamed=False)

    telemetry.run(info, streamed=False)

    assert set(telemetry.spans) == {"chat m"}
    assert "gen_ai.client.inference.time_to_first_chunk" not in telemetry.metrics
    assert "gen_ai.request.stream" not in telemetry.spans["chat m"].attributes


def test_without_an_sdk_nothing_is_built(monkeypatch):
    """No tracer, no instruments, no samples: the global providers are the API's stand-ins."""
    made = []
    monkeypatch.setattr(otel, "MetricEmitter", lambda *args: made.append(args))
    monkeypatch.setattr(otel, "emit_spans", lambda *args: made.append(args))
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    sink = otel.OtelSink()
    info = request()

    sink.finished(timeline_of(info), sink.started(info))
    sink.close()

    assert made == []


def test_an_unknown_setting_is_refused():
    """One line with what is accepted."""
    with pytest.raises(
        UsageError, match=r"semconv: '2' is not known; accepted: 0\.1\.0, 1\.41, both"
    ):
        otel.OtelSink(semconv="2")


def test_the_longest_gap_of_a_response_points_to_its_span():
    """Every gap is counted; of the samples a chunk one carries the span, those a response all do."""
    telemetry = Telemetry()
    info = request()
    events = tuple(
        TokenEvent(info.started_ns + t_ms * MS, "content", 1, read)
        for read, t_ms in enumerate((40, 60, 300, 321, 345))
    )

    telemetry.run(info, events=events)
    metrics = telemetry.metrics
    (gaps,) = metrics["gen_ai.client.inference.time_per_output_chunk"].data.data_points
    (first,) = metrics["phasemeter.client.time_to_first_token"].data.data_points

    assert (gaps.count, round(gaps.sum, 9)) == (4, 0.305)
    assert [one.value for one in gaps.exemplars] == [0.24]
    span_id = telemetry.spans["chat m"].context.span_id
    assert [one.span_id for one in (*gaps.exemplars, *first.exemplars)] == [span_id] * 2


async def test_a_long_response_is_told_in_a_turn_of_its_own():
    """So that the end of its stream holds the loop for little; closing tells what waits."""
    telemetry = Telemetry()

    telemetry.run(kinds=("content",) * 600)
    before = telemetry.spans
    telemetry.sink.close()

    assert not before
    assert set(telemetry.spans) == {"chat m", "prefill", "decode"}
    (gaps,) = telemetry.metrics["gen_ai.client.inference.time_per_output_chunk"].data.data_points
    assert gaps.count == 599
