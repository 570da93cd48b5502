"""The entry point for `opentelemetry-instrument`; loaded through it only.

Needs the package opentelemetry-instrumentation, which the extra `phasemeter[instrument]` brings.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, cast

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from phasemeter import sdk, settings
from phasemeter.sinks.otel import OtelSink

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class PhasemeterInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # it is not typed
    """Turns `phasemeter.instrument()` on and off in the way of OpenTelemetry's instrumentors.

    `instrument()` takes `tracer_provider` and `meter_provider` (the global ones by default), and `meter`
    and `inject_usage` as `phasemeter.instrument` does.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return no packages: either of httpx and httpx2 will do, now or later."""
        return ()

    def _instrument(self, **kwargs: object) -> None:
        tracer_provider = cast("TracerProvider | None", kwargs.get("tracer_provider"))
        meter_provider = cast("MeterProvider | None", kwargs.get("meter_provider"))
        meter = cast("sdk.Meter | None", kwargs.get("meter"))
        if meter is None and (tracer_provider is not None or meter_provider is not None):
            wanted = settings.from_environment()
            otel = OtelSink(
                wanted.semconv,
                tracer_provider=tracer_provider,
                meter_provider=meter_provider,
                label_allow_list=wanted.metric_tags,
                per_chunk_metrics=wanted.per_chunk_metrics,
            )
            meter = sdk.Meter(sdk.configured_sinks(otel))
        sdk.instrument(meter=meter, inject_usage=cast("bool | None", kwargs.get("inject_usage")))

    def _uninstrument(self, **kwargs: object) -> None:
        del kwargs
        sdk.uninstrument()
