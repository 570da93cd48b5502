"""The entry point of OpenTelemetry's zero-code instrumentation."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx2
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import phasemeter
from phasemeter.otel_instrumentor import PhasemeterInstrumentor
from phasemeter.testing import ScriptedReply, ScriptedServer, chat_events

ROOT = Path(__file__).parents[1]
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
APPLICATION = """
import os, openai
client = openai.OpenAI(base_url=os.environ["URL"], api_key="k", max_retries=0)
for _ in client.chat.completions.create(
    model="m", messages=[{"role": "user", "content": "hi"}], stream=True
):
    pass
client.close()
"""


@pytest.fixture
def server():
    # Slow enough that the tokens come in several reads: else there is no decode phase.
    with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=50, gap_ms=50))) as server:
        yield server


@pytest.fixture
def instrumentor():
    one = PhasemeterInstrumentor()
    yield one
    if one.is_instrumented_by_opentelemetry:
        one.uninstrument()


def test_the_providers_it_is_given_get_spans_and_metrics(server, instrumentor):
    """As with any other instrumentor of OpenTelemetry."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracer_provider = TracerProvider()
    tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
    meter_provider = MeterProvider(metric_readers=[reader])
    instrumentor.instrument(tracer_provider=tracer_provider, meter_provider=meter_provider)
    with httpx2.Client() as client:
        client.post(server.url + "/chat/completions", json=BODY)
        instrumentor.uninstrument()
        client.post(server.url + "/chat/completions", json=BODY)

    assert [span.name for span in exporter.get_finished_spans()] == ["prefill", "decode", "chat m"]
    (resource,) = reader.get_metrics_data().resource_metrics
    names = [metric.name for metric in resource.scope_metrics[0].metrics]
    assert "gen_ai.client.inference.duration" in names
    meter_provider.shutdown()


def test_meter_and_inject_usage_are_passed_on(server, instrumentor):
    timelines = []
    meter = phasemeter.Meter([phasemeter.CallbackSink(timelines.append)])
    instrumentor.instrument(meter=meter, inject_usage=True)
    with httpx2.Client() as client:
        client.post(server.url + "/chat/completions", json=BODY)

    assert len(timelines) == 1
    assert b"include_usage" in server.served[0].body


@pytest.fixture
def distribution(tmp_path):
    """The entry points as pyproject.toml has them, also where an older state is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = tmp_path / f"phasemeter-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: phasemeter\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_opentelemetry_instrument_needs_no_change_of_the_application(server, distribution):
    """The spans of one request, once; each in the format of the console exporter."""
    application = distribution / "application.py"
    application.write_text(APPLICATION)
    environment = {
        **os.environ,
        "URL": server.url,
        "PHASEMETER_STRICT": "1",
        "PYTHONPATH": os.pathsep.join([str(distribution), str(ROOT / "src")]),
        "OTEL_TRACES_EXPORTER": "console",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "openai,httpx,httpx2,requests,urllib3",
    }
    ran = subprocess.run(
        [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, application],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr

    spans = list(documents(ran.stdout))
    assert sorted(span["name"] for span in spans) == ["chat m", "decode", "prefill"]
    (request,) = [span for span in spans if span["name"] == "chat m"]
    assert request["attributes"]["phasemeter.outcome"] == "ok"
    assert {span["parent_id"] for span in spans} == {None, request["context"]["span_id"]}


def documents(printed):
    decoder = json.JSONDecoder()
    while printed := printed.lstrip():
        document, end = decoder.raw_decode(printed)
        printed = printed[end:]
        yield document
