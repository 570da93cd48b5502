"""Langfuse's drop-in for the openai module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.sdk_tools.tool import Telemetry, install


class LangfuseSdk:
    """Importing langfuse.openai changes the openai library; inputs and outputs are masked."""

    name = "langfuse"
    environment = "langfuse"
    baseline = "bare"
    package = "langfuse"
    note = "spans through its own batch processor to our exporter, inputs and outputs masked"
    records_chunks = False
    variables: Mapping[str, str] = MappingProxyType({"LANGFUSE_MEDIA_UPLOAD_ENABLED": "false"})

    def install(self, environment: Path) -> None:
        install(environment, "langfuse==5.0.4")

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        from langfuse import Langfuse
        from opentelemetry.sdk.trace import TracerProvider

        langfuse = Langfuse(
            public_key="pk-lf-benchmark",
            secret_key="sk-lf-benchmark",
            base_url="http://127.0.0.1:9",
            tracer_provider=TracerProvider(),
            span_exporter=telemetry.exporter,
            mask=lambda **_: None,
        )
        telemetry.flushes.append(langfuse.flush)
        import langfuse.openai

        return client
