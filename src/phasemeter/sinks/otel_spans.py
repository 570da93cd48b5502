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

_TO_UNIX_NS = PROCESS_ANCHOR.unix_ns - PROCESS_ANCHOR.monotonic_ns
_OF_PHASE: Mapping[str, Mapping[str, str]] = {
    name: {names.PHASE: name}
    for name in (names.PREFILL_SPAN, names.DECODE_SPAN, names.REASONING_SPAN)
}

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]


def emit_spans(
    tracer: trace.Tracer, request: RequestInfo, timeline: Timeline, parent: Context
) -> Context:
    """Emit the spans of a response, children of `parent`'s span; return the request span's context."""
    # All attributes at once, for a sampler to see and because each later call costs more than its attributes.
    span = tracer.start_span(
        request.operation if request.model is None else f"{request.operation} {request.model}",
        context=parent,
        kind=SpanKind.CLIENT,
        attributes=_attributes(request, timeline),
        start_time=timeline.started_ns + _TO_UNIX_NS,
    )
    context = trace.set_span_in_context(span, parent)
    if span.is_recording():
        if timeline.streamed:
            _emit_phases(tracer, timeline, context)
        if error_type_of(timeline) is not None:
            span.set_status(Status(StatusCode.ERROR))
    span.end(timeline.ended_ns + _TO_UNIX_NS)
    return context


def _emit_phases(tracer: trace.Tracer, timeline: Timeline, parent: Context) -> None:
    first_ns, last_ns = timeline.first_token_ns, timeline.last_token_ns
    if first_ns is None or last_ns is None:
        prefill = _phase(tracer, names.PREFILL_SPAN, timeline.started_ns, parent)
        error_type = error_type_of(timeline)
        if error_type is not None:
            prefill.set_attribute(names.ERROR_TYPE, error_type)
            prefill.set_status(Status(StatusCode.ERROR))
        prefill.end(timeline.ended_ns + _TO_UNIX_NS)
        return
    prefill = _phase(tracer, names.PREFILL_SPAN, timeline.started_ns, parent)
    prefill.end(first_ns + _TO_UNIX_NS)
    if (
        timeline.decode_ns is None
    ):  # all tokens came in one read: a span of length 0 would be untrue
        return
    decode = _phase(tracer, names.DECODE_SPAN, first_ns, parent)
    reasoning_end_ns = _reasoning_end_ns(timeline)
    if reasoning_end_ns is not None:
        within = trace.set_span_in_context(decode, parent)
        reasoning = _phase(tracer, names.REASONING_SPAN, first_ns, within)
        reasoning.end(reasoning_end_ns + _TO_UNIX_NS)
    decode.end(last_ns + _TO_UNIX_NS)


def _phase(tracer: trace.Tracer, name: str, start_ns: int, parent: Context) -> trace.Span:
    return tracer.start_span(
        name, context=parent, attributes=_OF_PHASE[name], start_time=start_ns + _TO_UNIX_NS
    )


def _reasoning_end_ns(timeline: Timeline) -> int | None:
    """Return when reasoning gave way to the answer; the last token where no answer came."""
    kinds = timeline.columns.kinds
    if not kinds or kinds[0] != "reasoning":
        return None
    after = (event.t_ns for event in timeline.events if event.kind != "reasoning")
    return next(after, timeline.last_token_ns)


def _attributes(request: RequestInfo, timeline: Timeline) -> Attributes:
    usage = timeline.usage
    found: dict[str, str | int | float | bool | Sequence[str]] = {
        **request_attributes(request),
        names.STAMP_SOURCE: timeline.stamp_source,
        names.OUTCOME: timeline.outcome.value,
    }
    if request.streamed:
        found[names.REQUEST_STREAM] = True
    if timeline.finish_reason:
        found[names.RESPONSE_FINISH_REASONS] = (timeline.finish_reason,)
    told = (
        (names.RESPONSE_MODEL, timeline.response_model),
        (names.USAGE_INPUT_TOKENS, usage.input_tokens),
        (names.USAGE_OUTPUT_TOKENS, usage.output_tokens),
        (names.USAGE_CACHE_READ_INPUT_TOKENS, usage.cached_input_tokens),
        (names.USAGE_REASONING_OUTPUT_TOKENS, usage.reasoning_tokens),
        (names.HTTP_STATUS_CODE, timeline.http_status),
        (names.ERROR_TYPE, error_type_of(timeline)),
        (names.TOKEN_COUNT_SOURCE, _token_count_source(timeline)),
    )
    found |= {name: value for name, value in told if value is not None}
    if timeline.streamed:
        _add_times(found, timeline)
    for name, label in timeline.tags.items():
        found[names.TAG_PREFIX + name] = label
    return found


def _add_times(
    found: dict[str, str | int | float | bool | Sequence[str]], timeline: Timeline
) -> None:
    start_ns = timeline.started_ns
    for name, end_ns in (
        (names.RESPONSE_TIME_TO_FIRST_CHUNK, timeline.first_event_ns),
        (names.TIME_TO_FIRST_TOKEN, timeline.first_token_ns),
        (names.TIME_TO_FIRST_ANSWER, timeline.first_answer_ns),
    ):
        if end_ns is not None:
            found[name] = (end_ns - start_ns) / 1e9
    gaps_ns = timeline.ordered_gaps_ns()
    if gaps_ns:
        found[names.GAP_P50] = _rank_s(gaps_ns, 50)
        found[names.GAP_P99] = _rank_s(gaps_ns, 99)
        found[names.GAP_MAX] = gaps_ns[-1] / 1e9
    found[names.COALESCED_EVENTS] = timeline.coalesced_events
    limited = timeline.consumer_limited_gaps
    if limited is not None:
        found[names.CONSUMER_LIMITED_GAPS] = limited


def _token_count_source(timeline: Timeline) -> str | None:
    if timeline.usage.output_tokens is not None:
        return "usage"
    return "events" if timeline.events else None


def _rank_s(ordered_ns: Sequence[int], percent: int) -> float:
    """Nearest-rank percentile of ordered values, in seconds."""
    return ordered_ns[max(1, -(-len(ordered_ns) * percent // 100)) - 1] / 1e9
