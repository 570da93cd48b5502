"""OpenTelemetry: one client span a request with its phases as children, and the metrics.

Everything is emitted when the response has ended, with explicit times from one wall-clock anchor, so that
the children add up exactly. No text of prompt or answer is ever in it. With no SDK configured nothing is
built at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace

from phasemeter.core.errors import UsageError
from phasemeter.core.timeline import Timeline
from phasemeter.sinks import semconv as names
from phasemeter.sinks.backlog import Backlog
from phasemeter.sinks.otel_metrics import MetricEmitter
from phasemeter.sinks.otel_spans import emit_spans
from phasemeter.transports.request import RequestInfo

if TYPE_CHECKING:
    from opentelemetry.context import Context

SCOPE = "phasemeter"
_LONG_EVENTS = 500
"""What is emitted of a longer response gets a turn of the event loop of its own."""


@dataclass(frozen=True, slots=True)
class _Started:
    request: RequestInfo
    context: Context
    counts_as_active: bool


class OtelSink:
    """Emits spans and metrics through the OpenTelemetry API. Thread-safe.

    Args:
        semconv: Names of the conventions' metrics: `0.1.0` (`gen_ai.client.inference.*`), `1.41`
            (`gen_ai.client.operation.*`) or `both`.
        tracer_provider: Where spans go; the global provider by default, looked up at each use until
            an SDK is configured.
        meter_provider: Where metrics go; the same rule.
        label_allow_list: Names of tags that become metric attributes. Tags are always on spans.
        per_chunk_metrics: Record the time of each chunk (`time_per_output_chunk`,
            `inter_token_latency`). One record costs about 15 us in OpenTelemetry's SDK, more than all
            else that is done for a chunk together.

    Raises:
        UsageError: For another value of `semconv`.
    """

    def __init__(
        self,
        semconv: names.Semconv = "0.1.0",
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        label_allow_list: Sequence[str] = (),
        per_chunk_metrics: bool = True,
    ) -> None:
        if semconv not in names.SEMCONVS:
            msg = f"semconv: {semconv!r} is not known; accepted: {', '.join(names.SEMCONVS)}"
            raise UsageError(msg)
        self._semconv = semconv
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._label_allow_list = frozenset(label_allow_list)
        self._per_chunk_metrics = per_chunk_metrics
        self._tracer: trace.Tracer | None = None
        self._emitter: MetricEmitter | None = None
        self._backlog: Backlog[Callable[[], None]] = Backlog(lambda emit: emit())

    def started(self, request: RequestInfo) -> object:
        """Keep the caller's context as the parent; count a stream as active."""
        emitter = self._metrics()
        counts_as_active = emitter is not None and request.streamed
        if emitter is not None and request.streamed:
            emitter.stream_started(request)
        return _Started(request, otel_context.get_current(), counts_as_active)

    def finished(self, timeline: Timeline, state: object) -> None:
        """Emit the spans and the metrics of a response."""
        if not isinstance(state, _Started):
            return
        emitter = self._metrics()
        if emitter is not None and state.counts_as_active:
            emitter.stream_ended(state.request)
        if len(timeline.events) <= _LONG_EVENTS:
            self._emit(state, timeline)
        else:
            self._backlog.add([partial(self._emit, state, timeline)], 1)

    def _emit(self, state: _Started, timeline: Timeline) -> None:
        context = state.context
        tracer, emitter = self._spans(), self._metrics()
        if tracer is not None:
            context = emit_spans(tracer, state.request, timeline, context)
        if emitter is not None:
            emitter.emit(state.request, timeline, context)

    def close(self) -> None:
        """Emit what is put off. Providers belong to the application."""
        self._backlog.drain()
        if self._emitter is not None:
            self._emitter.drain()

    def _spans(self) -> trace.Tracer | None:
        if self._tracer is None:
            provider = self._tracer_provider or trace.get_tracer_provider()
            if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
                return None
            self._tracer = provider.get_tracer(SCOPE, _version())
        return self._tracer

    def _metrics(self) -> MetricEmitter | None:
        if self._emitter is None:
            provider = self._meter_provider or metrics.get_meter_provider()
            # The proxy that stands in until an SDK comes is not public; its name is.
            if (
                isinstance(provider, metrics.NoOpMeterProvider)
                or "Proxy" in type(provider).__name__
            ):
                return None
            meter = provider.get_meter(SCOPE, _version())
            self._emitter = MetricEmitter(
                meter, self._semconv, self._label_allow_list, per_chunk=self._per_chunk_metrics
            )
        return self._emitter


def _version() -> str:
    return version("phasemeter")
