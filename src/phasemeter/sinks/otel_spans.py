"""The spans of one response: request, prefill, decode, and reasoning where it precedes the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from phasemeter.core.clock import PROCESS_ANCHOR
from phasemeter.core.timeline import Timeline
from phasemeter.sinks import semconv as names
from phasemeter.sinks.otel_attributes import error_type_of, request_attributes
from phasemeter.transports.request import RequestInfo

if TYPE_CHECKING:
    from opentelemetry.context import Context

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]


def emit_spans(
    tracer: trace.Tracer, request: RequestInfo, timeline: Timeline, parent: Context
) -> Context:
    """Emit the spans of a response, children of `parent`'s span; return the request span's context."""
    name = request.operation if request.model is None else f"{request.operation} {request.model}"
    span = tracer.start_span(
        name,
        context=parent,
        kind=SpanKind.CLIENT,
        attributes=request_attributes(request),
        start_time=_unix_ns(timeline.started_ns),
    )
    context = trace.set_span_in_context(span, parent)
    if not span.is_recording():
        span.end()
        return context
    span.set_attributes(_response_attributes(request, timeline))
    if timeline.streamed:
        _emit_phases(tracer, timeline, context)
    error_type = error_type_of(timeline)
    if error_type is not None:
        span.set_attribute(names.ERROR_TYPE, error_type)
        span.set_status(Status(StatusCode.ERROR))
    span.end(_unix_ns(timeline.ended_ns))
    return context


def _emit_phases(tracer: trace.Tracer, timeline: Timeline, parent: Context) -> None:
    first_ns, last_ns = timeline.first_token_ns, timeline.last_token_ns
    if first_ns is None or last_ns is None:
        prefill = _phase(tracer, names.PREFILL_SPAN, timeline.started_ns, parent)
        error_type = error_type_of(timeline)
        if error_type is not None:
            prefill.set_attribute(names.ERROR_TYPE, error_type)
            prefill.set_status(Status(StatusCode.ERROR))
        prefill.end(_unix_ns(timeline.ended_ns))
        return
    _phase(tracer, names.PREFILL_SPAN, timeline.started_ns, parent).end(_unix_ns(first_ns))
    if (
        timeline.decode_ns is None
    ):  # all tokens came in one read: a span of length 0 would be untrue
        return
    decode = _phase(tracer, names.DECODE_SPAN, first_ns, parent)
    reasoning_end_ns = _reasoning_end_ns(timeline)
    if reasoning_end_ns is not None:
        within = trace.set_span_in_context(decode, parent)
        _phase(tracer, names.REASONING_SPAN, first_ns, within).end(_unix_ns(reasoning_end_ns))
    decode.end(_unix_ns(last_ns))


def _phase(tracer: trace.Tracer, name: str, start_ns: int, parent: Context) -> trace.Span:
    return tracer.start_span(
        name,
        context=parent,
        kind=SpanKind.INTERNAL,
        attributes={names.PHASE: name},
        start_time=_unix_ns(start_ns),
    )


def _reasoning_end_ns(timeline: Timeline) -> int | None:
    """Return when reasoning gave way to the answer; the last token where no answer came."""
    if not timeline.events or timeline.events[0].kind != "reasoning":
        return None
    after = (event.t_ns for event in timeline.events if event.kind != "reasoning")
    return next(after, timeline.last_token_ns)


def _response_attributes(request: RequestInfo, timeline: Timeline) -> Attributes:
    usage = timeline.usage
    found: dict[str, str | int | float | bool | Sequence[str] | None] = {
        names.REQUEST_STREAM: True if request.streamed else None,
        names.RESPONSE_MODEL: timeline.response_model,
        names.RESPONSE_FINISH_REASONS: (
            [timeline.finish_reason] if timeline.finish_reason else None
        ),
        names.USAGE_INPUT_TOKENS: usage.input_tokens,
        names.USAGE_OUTPUT_TOKENS: usage.output_tokens,
        names.USAGE_CACHE_READ_INPUT_TOKENS: usage.cached_input_tokens,
        names.USAGE_REASONING_OUTPUT_TOKENS: usage.reasoning_tokens,
        names.HTTP_STATUS_CODE: timeline.http_status,
        names.STAMP_SOURCE: timeline.stamp_source,
        names.OUTCOME: timeline.outcome.value,
        names.TOKEN_COUNT_SOURCE: _token_count_source(timeline),
    }
    if timeline.streamed:
        found |= _stream_attributes(timeline)
    found |= {names.TAG_PREFIX + name: value for name, value in timeline.tags.items()}
    return {name: value for name, value in found.items() if value is not None}


def _stream_attributes(timeline: Timeline) -> dict[str, float | int | None]:
    gaps_ns = sorted(timeline.gaps_ns())
    return {
        names.RESPONSE_TIME_TO_FIRST_CHUNK: _since_start_s(timeline, timeline.first_event_ns),
        names.TIME_TO_FIRST_TOKEN: _since_start_s(timeline, timeline.first_token_ns),
        names.TIME_TO_FIRST_ANSWER: _since_start_s(timeline, timeline.first_answer_ns),
        names.GAP_P50: _rank_s(gaps_ns, 0.5),
        names.GAP_P99: _rank_s(gaps_ns, 0.99),
        names.GAP_MAX: _rank_s(gaps_ns, 1.0),
        names.COALESCED_EVENTS: timeline.coalesced_events,
        names.CONSUMER_LIMITED_GAPS: timeline.consumer_limited_gaps,
    }


def _token_count_source(timeline: Timeline) -> str | None:
    if timeline.usage.output_tokens is not None:
        return "usage"
    return "events" if timeline.events else None


def _since_start_s(timeline: Timeline, t_ns: int | None) -> float | None:
    return None if t_ns is None else (t_ns - timeline.started_ns) / 1e9


def _rank_s(ordered_ns: Sequence[int], share: float) -> float | None:
    """Nearest-rank percentile of ordered values, in seconds."""
    if not ordered_ns:
        return None
    rank = max(1, -(-len(ordered_ns) * round(share * 100) // 100))
    return ordered_ns[rank - 1] / 1e9


def _unix_ns(monotonic_ns: int) -> int:
    return PROCESS_ANCHOR.unix_ns_at(monotonic_ns)
