"""OpenLIT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.peers.environment import ensure
from benchmarks.sdk_tools.bare import Bare
from benchmarks.sdk_tools.tool import OPENTELEMETRY, Telemetry

OPENAI_2 = "openai==2.54.0"
_NEEDED = (
    "opentelemetry-instrumentation==0.66b2",
    "opentelemetry-exporter-otlp==1.45.2",
    "requests",
    "schedule",
    "xmltodict",
)


def install_openlit(environment: Path) -> None:
    """Have OpenLIT on openai 2, the newest it accepts.

    It is installed without its dependencies, which name the instrumentations of many web frameworks.

    Raises:
        UnavailableError: If it cannot be had.
    """
    ensure(environment, [OPENAI_2, OPENTELEMETRY, *_NEEDED], ["--no-deps", "openlit==1.45.0"])


class OpenlitSdk:
    """openlit.init() with the openai instrumentation only, without content."""

    name = "openlit"
    environment = "openlit"
    baseline = "bare, openai 2"
    package = "openlit"
    note = (
        "it declares openai < 3, so it runs on openai 2.54.0 and httpx and is compared with the bare "
        "client of those; spans and metrics, capture_message_content=False"
    )
    records_chunks = True
    variables: Mapping[str, str] = MappingProxyType({})

    def install(self, environment: Path) -> None:
        install_openlit(environment)

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        from opentelemetry import metrics, trace

        trace.set_tracer_provider(telemetry.tracer_provider)
        metrics.set_meter_provider(telemetry.meter_provider)
        import openlit

        openlit.init(capture_message_content=False, disable_events=True, pricing_json=_no_prices())
        return client


def _no_prices() -> str:
    """Return a file of no prices: without one it would fetch them over the network."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        file.write('{"chat": {}}')
    return file.name


class BareOpenai2(Bare):
    """The openai client of OpenLIT's environment, as it comes."""

    name = "bare, openai 2"
    environment = "openlit"
    baseline = "bare, openai 2"

    def install(self, environment: Path) -> None:
        install_openlit(environment)
