"""What is left for the end of a long stream is done in short turns of the event loop."""

import asyncio
import sys
from asyncio.events import Handle

import httpx2
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import phasemeter
from phasemeter.sinks import backlog
from phasemeter.testing import chat_events
from phasemeter.transports.call import open_call
from phasemeter.transports.streams import async_stream_class

_INSTRUCTION_NS = 40
"""What an instruction of Python's takes, about: 1 ms is 25,000 of them."""
_MOST_INSTRUCTIONS = 25_000


class Work:
    """Counts the instructions that Python runs, and those of each callback of the event loop.

    It is a clock, too: what takes short turns by the time takes them by the work then, on any machine.
    """

    def __init__(self):
        self.instructions = 0
        self.of_callbacks = []

    def now_ns(self):
        return self.instructions * _INSTRUCTION_NS

    def trace(self, frame, event, argument):
        del argument
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.instructions += event == "opcode"
        return self.trace


@pytest.fixture
def work(monkeypatch):
    """The work of this test, looked at while a callback runs."""
    work = Work()
    run = Handle._run

    def counted(handle):
        before = work.instructions
        tracing = sys.gettrace()
        sys.settrace(work.trace)
        try:
            run(handle)
        finally:
            sys.settrace(tracing)
        work.of_callbacks.append(work.instructions - before)

    monkeypatch.setattr(Handle, "_run", counted)
    monkeypatch.setattr(backlog, "now_ns", work.now_ns)
    return work


class Body(httpx2.AsyncByteStream):
    """A response whose reads each take a turn of the loop."""

    def __init__(self, tokens):
        self._events = [data for _, data in chat_events(kinds=("content",) * tokens)]

    async def __aiter__(self):
        for data in self._events:
            await asyncio.sleep(0)
            yield f"data: {data}\n\n".encode()

    async def aclose(self):
        pass


async def read_to_the_end(meter, body, until):
    """Read a response through the timed stream, then let the loop turn until all is told."""
    request = httpx2.Request("POST", "http://h/v1/chat/completions", json={"stream": True})
    call = open_call(meter, request)
    call.on_response(httpx2.Response(200, stream=body))
    async for _ in async_stream_class(httpx2.AsyncByteStream)(body, call):
        pass
    for _ in range(10_000):
        if until():
            return
        await asyncio.sleep(0)
    pytest.fail("not told after 10,000 turns")


@pytest.mark.parametrize("tokens", [100, 2000])
def test_no_turn_of_the_loop_is_held_for_long(tokens, work):
    """Spans, HDR histograms and OpenTelemetry metrics on; every gap is in both at last."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracer_provider = TracerProvider()
    tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
    hdr = phasemeter.HdrSink()
    otel = phasemeter.OtelSink(
        tracer_provider=tracer_provider, meter_provider=MeterProvider([reader])
    )
    meter = phasemeter.Meter(sinks=[hdr, otel])

    def is_told():
        backlogs = (hdr._backlog, otel._backlog, otel._emitter._backlog)
        return not any(one._scheduled_on for one in backlogs)

    short, long = Body(2), Body(tokens)

    async def twice():
        await read_to_the_end(meter, short, is_told)  # imports, instruments, compiled patterns
        await asyncio.sleep(0)
        work.of_callbacks.clear()
        await read_to_the_end(meter, long, is_told)

    asyncio.run(twice())

    assert max(work.of_callbacks) < _MOST_INSTRUCTIONS
    assert sum(work.of_callbacks) > _MOST_INSTRUCTIONS
    (group,) = meter.snapshot()["groups"]
    gaps = group["metrics"]["gap_raw"]["count"] + group["coalesced"]
    assert gaps == (2 - 1) + (tokens - 1)
    spans = [span.name for span in exporter.get_finished_spans()]
    assert spans == ["prefill", "decode", "chat"] * 2
    (metric,) = (
        one
        for scope in reader.get_metrics_data().resource_metrics[0].scope_metrics
        for one in scope.metrics
        if one.name == "gen_ai.client.inference.time_per_output_chunk"
    )
    assert sum(point.count for point in metric.data.data_points) == group["metrics"]["gap"]["count"]
    meter.close()
