"""phasemeter, in three settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.peers.environment import ensure
from benchmarks.sdk_tools.tool import OPENAI, OPENTELEMETRY, Telemetry

_ROOT = Path(__file__).parents[2]


class PhasemeterSdk:
    """The SDK of this tree, which every process has on its path.

    Args:
        name: Name of the row.
        note: What the row shows.
        spans: Whether spans are emitted.
        metrics: Whether OpenTelemetry metrics are recorded.
    """

    environment = "phasemeter"
    baseline = "bare"
    package = "phasemeter"
    variables: Mapping[str, str] = MappingProxyType({"PHASEMETER_STRICT": "1"})

    def __init__(self, name: str, note: str, *, spans: bool, metrics: bool) -> None:
        self.name = name
        self.note = note
        self.records_chunks = metrics
        self._spans = spans

    def install(self, environment: Path) -> None:
        ensure(
            environment,
            [OPENAI, OPENTELEMETRY, "hdrhistogram==0.10.8"],
            ["--no-deps", "--editable", str(_ROOT)],  # for its version; the path has the code
        )

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        from opentelemetry.metrics import NoOpMeterProvider

        import phasemeter

        sinks: list[phasemeter.Sink] = [phasemeter.HdrSink()]
        if self._spans:
            metrics = telemetry.meter_provider if self.records_chunks else NoOpMeterProvider()
            sinks.append(
                phasemeter.OtelSink(
                    tracer_provider=telemetry.tracer_provider, meter_provider=metrics
                )
            )
        return phasemeter.Meter(sinks=sinks).wrap(client)
