"""A process with phasemeter and other instrumentations of openai; prints what was seen at each step.

Run by test_coexistence.py as `python coexistence.py BASE_URL PASSES`, in a process of its own, because
not every instrumentation takes all of its patches out again.
"""

import asyncio
import json
import sys
from importlib import import_module

import openai
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from phasemeter.otel_instrumentor import PhasemeterInstrumentor

OTHERS = {
    "genai-openai": ("opentelemetry.instrumentation.genai.openai", "OpenAIInstrumentor"),
    "openinference": ("openinference.instrumentation.openai", "OpenAIInstrumentor"),
    "traceloop": ("opentelemetry.instrumentation.openai", "OpenAIInstrumentor"),
    "httpx2": ("opentelemetry.instrumentation.httpx", "HTTPX2ClientInstrumentor"),
}
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)


def blocking(url):
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
        return [chunk.model_dump() for chunk in client.chat.completions.create(**REQUEST)]


def awaiting(url):
    async def go():
        async with openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
            stream = await client.chat.completions.create(**REQUEST)
            return [chunk.model_dump() async for chunk in stream]

    return asyncio.run(go())


def observe(url, use):
    """One streamed request: what the application got, and the spans, ours and theirs."""
    exporter.clear()
    chunks = use(url)
    spans = exporter.get_finished_spans()
    by_id = {span.context.span_id: span for span in spans}

    def scope_of_parent(span):
        parent = None if span.parent is None else by_id.get(span.parent.span_id)
        return None if parent is None else parent.instrumentation_scope.name

    ours = [span for span in spans if span.instrumentation_scope.name == "phasemeter"]
    return {
        "chunks": chunks,
        "ours": sorted((span.name, scope_of_parent(span)) for span in ours),
        "theirs": sorted(described(span) for span in spans if span not in ours),
    }


def described(span):
    """Everything of a span that is the same for the same request at another time."""
    attributes = {
        name: value
        for name, value in (span.attributes or {}).items()
        if not isinstance(value, float)  # durations
    }
    return json.dumps(
        [
            span.instrumentation_scope.name,
            span.name,
            span.kind.name,
            span.status.status_code.name,
            attributes,
            [event.name for event in span.events],
        ],
        sort_keys=True,
        default=list,
    )


def main(url, passes):
    """Each pass turns instrumentations on in one order and off in another, one by one."""
    made = {"phasemeter": PhasemeterInstrumentor()}
    states = []
    for order_on, order_off in passes:
        on = []
        states.append([list(on), *(observe(url, use) for use in USES)])
        for name in order_on:
            if name not in made:
                module, instrumentor = OTHERS[name]
                made[name] = getattr(import_module(module), instrumentor)()
            made[name].instrument()
            on.append(name)
            states.append([list(on), *(observe(url, use) for use in USES)])
        for name in order_off:
            made[name].uninstrument()
            on.remove(name)
            states.append([list(on), *(observe(url, use) for use in USES)])
    sys.stdout.write(json.dumps(states))


USES = (blocking, awaiting)

if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
