"""OpenTelemetry's own instrumentation of the openai client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.sdk_tools.tool import Telemetry, install


class GenaiOpenai:
    """opentelemetry-instrumentation-genai-openai; content is off by default.

    Args:
        name: Name of the row.
        note: What the row shows.
        metrics: Whether a meter provider is given.
    """

    environment = "genai-openai"
    baseline = "bare"
    package = "opentelemetry-instrumentation-genai-openai"
    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self, name: str, note: str, *, metrics: bool) -> None:
        self.name = name
        self.note = note
        self.records_chunks = metrics

    def install(self, environment: Path) -> None:
        install(environment, "opentelemetry-instrumentation-genai-openai==1.3b0")

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
        from opentelemetry.metrics import NoOpMeterProvider

        metrics = telemetry.meter_provider if self.records_chunks else NoOpMeterProvider()
        OpenAIInstrumentor().instrument(
            tracer_provider=telemetry.tracer_provider, meter_provider=metrics
        )
        return client
