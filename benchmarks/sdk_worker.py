"""The process in which one tool is measured: `python -m benchmarks.sdk_worker TOOL sync|async [PORT]`.

With a port, the client talks to the paced server there; else over the network in memory. Runs in the tool's own environment, takes commands as JSON lines on its input and answers each with one.
It needs the openai client, the OpenTelemetry SDK, the standard library and this tree.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from time import process_time_ns
from typing import Any

import openai
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.loop_holds import until_idle, watched_holds
from benchmarks.memory_network import URL, MemoryNetwork
from benchmarks.openai_family import httpx
from benchmarks.paced_server import answer
from benchmarks.sdk_tools import sdk_tool
from benchmarks.sdk_tools.tool import Telemetry

REQUEST: Mapping[str, Any] = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "Say something."}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


class Discard(SpanExporter):
    """Counts spans and lets them go."""

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Any) -> SpanExportResult:
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class CostWorker:
    """One tool on one client.

    Args:
        name: Name of the tool's row.
        is_async: Whether the client is the async one.
        port: Port of the paced server; None for the network in memory.
    """

    def __init__(self, name: str, *, is_async: bool, port: int | None = None) -> None:
        self._is_async = is_async
        self._exporter = Discard()
        self._runs = 0
        processor = BatchSpanProcessor(self._exporter)
        tracer_provider = TracerProvider()
        tracer_provider.add_span_processor(processor)
        self._telemetry = Telemetry(
            self._exporter,
            processor,
            tracer_provider,
            MeterProvider([InMemoryMetricReader()]),
            self._count_run,
        )
        self._network = MemoryNetwork([])
        url = URL if port is None else f"http://127.0.0.1:{port}/v1"
        if is_async:
            self._runner = asyncio.Runner()
            http = self._network.async_client() if port is None else httpx.AsyncClient()
            client: Any = openai.AsyncOpenAI(base_url=url, api_key="k", http_client=http)
        else:
            http = self._network.client() if port is None else httpx.Client()
            client = openai.OpenAI(base_url=url, api_key="k", http_client=http)
        self._client = sdk_tool(name).timed(client, self._telemetry)

    def cost(self, chunks: int, streams: int) -> dict[str, object]:
        """Return the CPU time of the whole process for so many streams, one after the other."""
        self._answer_with(chunks)
        spans, runs = self._exporter.spans, self._runs
        gc.collect()
        started_ns = process_time_ns()
        if self._is_async:
            seen = self._runner.run(self._consume_async(streams))
        else:
            seen = sum(self._consume() for _ in range(streams))
        self._flush()
        cpu_ns = process_time_ns() - started_ns
        # The role, the finish and the usage come in chunks of their own.
        if seen != streams * (chunks + 3):
            msg = f"{seen} chunks instead of {streams * (chunks + 3)}"
            raise RuntimeError(msg)
        return {
            "cpu_ns": cpu_ns,
            "spans": self._exporter.spans - spans,
            "runs": self._runs - runs,
        }

    def hold(self, chunks: int, streams: int) -> dict[str, object]:
        """Return how long the loop was held in one go at the end of streams, and before it, in ns."""
        self._answer_with(chunks)
        return self._runner.run(self._holds(streams))

    async def _holds(self, streams: int) -> dict[str, object]:
        at_end: dict[str, list[int]] = {"wall_ns": [], "cpu_ns": []}
        before: list[int] = []
        loop = asyncio.get_running_loop()
        for _ in range(streams):
            gc.collect()
            await until_idle(loop)
            gc.disable()
            try:
                with watched_holds() as holds:
                    mark: list[int] = []
                    self._network.on_last_read = lambda m=mark, h=holds: m.append(len(h.cpu_ns))
                    await self._consume_async(1)
                    await asyncio.sleep(0)
            finally:
                gc.enable()
            at_end["wall_ns"].append(max(holds.wall_ns[mark[0] :]))
            at_end["cpu_ns"].append(max(holds.cpu_ns[mark[0] :]))
            before.append(max(holds.cpu_ns[2 : mark[0]]))
        self._network.on_last_read = lambda: None
        return {
            "end_cpu_ns": median(at_end["cpu_ns"]),
            "end_cpu_max_ns": max(at_end["cpu_ns"]),
            "end_wall_ns": median(at_end["wall_ns"]),
            "before_cpu_ns": median(before),
        }

    def _answer_with(self, chunks: int) -> None:
        self._network.reads = list(answer(chunks))
        self._request = {**REQUEST, "max_tokens": chunks}

    def _consume(self) -> int:
        seen = 0
        for _ in self._client.chat.completions.create(**self._request):
            seen += 1
        return seen

    async def _consume_async(self, streams: int) -> int:
        seen = 0
        for _ in range(streams):
            async for _ in await self._client.chat.completions.create(**self._request):
                seen += 1
        await until_idle(asyncio.get_running_loop())
        return seen

    def _flush(self) -> None:
        self._telemetry.tracer_provider.force_flush()
        for flush in self._telemetry.flushes:
            flush()

    def _count_run(self, run: Mapping[str, Any]) -> None:
        self._runs += 1


def _commands() -> Iterator[tuple[str, dict[str, Any]]]:
    for line in sys.stdin:
        command = json.loads(line)
        yield command.pop("do"), command


def main() -> None:
    """Answer commands until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints is no answer
    name, how, *ports = sys.argv[1:]
    worker = CostWorker(name, is_async=how == "async", port=int(ports[0]) if ports else None)
    known: dict[str, Callable[..., dict[str, object]]] = {"cost": worker.cost, "hold": worker.hold}
    for what, arguments in _commands():
        answer = known[what](**arguments)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
