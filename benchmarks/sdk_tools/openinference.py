"""Arize's OpenInference instrumentation of the openai client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.sdk_tools.tool import Telemetry, install


class OpenInference:
    """openinference-instrumentation-openai, inputs and outputs hidden; it has no metrics."""

    name = "openinference"
    environment = "openinference"
    baseline = "bare"
    package = "openinference-instrumentation-openai"
    note = "spans, inputs and outputs hidden; it has no metrics"
    records_chunks = False
    variables: Mapping[str, str] = MappingProxyType(
        {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"}
    )

    def install(self, environment: Path) -> None:
        install(environment, "openinference-instrumentation-openai==0.1.66")

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        from openinference.instrumentation.openai import OpenAIInstrumentor

        OpenAIInstrumentor().instrument(tracer_provider=telemetry.tracer_provider)
        return client
