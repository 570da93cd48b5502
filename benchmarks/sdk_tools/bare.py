"""The openai client as it comes: what every cost is added to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.sdk_tools.tool import Telemetry, install


class Bare:
    """No tool at all."""

    name = "bare"
    environment = "bare"
    baseline = "bare"
    package = "openai"
    note = ""
    records_chunks = False
    variables: Mapping[str, str] = MappingProxyType({})

    def install(self, environment: Path) -> None:
        install(environment)

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        return client
