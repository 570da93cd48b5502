"""A Meter with its records and spans, and what must hold of them after any exit."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import phasemeter


class Watched:
    """A Meter with its records and spans."""

    def __init__(self):
        self.timelines = []
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meter = phasemeter.Meter(
            sinks=[
                phasemeter.CallbackSink(self.timelines.append),
                phasemeter.OtelSink(tracer_provider=provider),
                phasemeter.HdrSink(),
            ]
        )

    def check(self, outcome, error_type, *, is_error):
        """Exactly one record and one request span, which agree; returns the record."""
        self.meter.snapshot()  # a use of the Meter: reports what was dropped
        (timeline,) = self.timelines
        (request,) = self.requests()
        assert (timeline.outcome, timeline.error_type) == (outcome, error_type)
        expected = StatusCode.ERROR if is_error else StatusCode.UNSET
        assert request.status.status_code is expected
        assert ("error.type" in request.attributes) == is_error
        assert request.end_time - request.start_time == timeline.ended_ns - timeline.started_ns
        return timeline

    def requests(self):
        return [one for one in self.exporter.get_finished_spans() if one.kind is SpanKind.CLIENT]
