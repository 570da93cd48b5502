"""The same answer as spans: an OpenTelemetry SDK that prints to the console.

Needs PHASEMETER_BASE_URL and PHASEMETER_MODEL, and the extras `phasemeter[openai,otel]`.
"""

import os

import openai
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import phasemeter

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
trace.set_tracer_provider(provider)

client = phasemeter.wrap(
    openai.OpenAI(
        base_url=os.environ["PHASEMETER_BASE_URL"], api_key=os.getenv("OPENAI_API_KEY", "none")
    )
)
with trace.get_tracer("example").start_as_current_span("answer a question"):
    stream = client.chat.completions.create(
        model=os.environ["PHASEMETER_MODEL"],
        messages=[{"role": "user", "content": "Why is the sky blue?"}],
        stream=True,
        max_tokens=32,
    )
    for _ in stream:
        pass
provider.shutdown()
