"""Traceloop's OpenLLMetry instrumentation of the openai client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.sdk_tools.tool import Telemetry, install


class Traceloop:
    """opentelemetry-instrumentation-openai, without content."""

    name = "traceloop"
    environment = "traceloop"
    baseline = "bare"
    package = "opentelemetry-instrumentation-openai"
    note = "spans and metrics, TRACELOOP_TRACE_CONTENT=false; a span event for each chunk"
    records_chunks = False
    variables: Mapping[str, str] = MappingProxyType({"TRACELOOP_TRACE_CONTENT": "false"})

    def install(self, environment: Path) -> None:
        install(environment, "opentelemetry-instrumentation-openai==0.62.4")

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor

        OpenAIInstrumentor().instrument(
            tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider
        )
        return client
