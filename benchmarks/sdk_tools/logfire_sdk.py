"""Pydantic's Logfire."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.sdk_tools.tool import Telemetry, install


class LogfireSdk:
    """logfire.instrument_openai(client); nothing is sent, it has no switch for content."""

    name = "logfire"
    environment = "logfire"
    baseline = "bare"
    package = "logfire"
    note = "spans to our processor; it has no switch for content, so content is kept"
    records_chunks = False
    variables: Mapping[str, str] = MappingProxyType({"LOGFIRE_IGNORE_NO_CONFIG": "1"})

    def install(self, environment: Path) -> None:
        install(environment, "logfire==5.4.0")

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        import logfire

        logfire.configure(
            send_to_logfire=False,
            console=False,
            metrics=False,
            inspect_arguments=False,
            additional_span_processors=[telemetry.processor],
        )
        logfire.instrument_openai(client)
        return client
