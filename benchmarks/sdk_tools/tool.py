"""What the comparison needs to know of a tracing SDK: how to get it and how to switch it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.peers.environment import ensure

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

OPENAI = "openai==3.57.0"
OPENTELEMETRY = "opentelemetry-sdk==1.45.2"


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Where the spans and metrics of a tool go; the same for every tool.

    Attributes:
        exporter: The end of every span; for tools that bring their own processor.
        processor: Takes every span; part of `tracer_provider` already.
        tracer_provider: For tools that take one.
        meter_provider: For tools that take one.
        take_run: Takes what a tool that makes no spans hands to its uploader.
        flushes: Filled by tools with processors of their own: functions that empty those.
    """

    exporter: SpanExporter
    processor: SpanProcessor
    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    take_run: Callable[[Mapping[str, Any]], None]
    flushes: list[Callable[[], object]] = field(default_factory=list)


class SdkTool(Protocol):
    """A tracing SDK, in one way of using it.

    Attributes:
        name: Short name of the row.
        environment: Name of its virtual environment; variants of a tool share one.
        baseline: Name of the row of the bare client that it is compared with.
        package: Distribution whose version is shown.
        note: What a reader of its row must know, or an empty text.
        records_chunks: Whether it records a metric sample for each chunk.
        variables: Environment variables of its process, such as those that keep content out.
    """

    @property
    def name(self) -> str: ...

    @property
    def environment(self) -> str: ...

    @property
    def baseline(self) -> str: ...

    @property
    def package(self) -> str: ...

    @property
    def note(self) -> str: ...

    @property
    def records_chunks(self) -> bool: ...

    @property
    def variables(self) -> Mapping[str, str]: ...

    def install(self, environment: Path) -> None:
        """Have the tool in a virtual environment of its own.

        Raises:
            UnavailableError: If it cannot be had.
        """
        ...

    def timed(self, client: Any, telemetry: Telemetry) -> Any:
        """Switch the tool on; in a process of its own environment, once.

        Args:
            client: An openai client, blocking or async.
            telemetry: Where its findings go.

        Returns:
            The client to use; some tools change the given one or the whole library.
        """
        ...


def install(environment: Path, *more: str) -> None:
    """Have an environment with the common packages and more, in one call of pip.

    Raises:
        UnavailableError: If it cannot be had.
    """
    ensure(environment, [OPENAI, OPENTELEMETRY, *more])
