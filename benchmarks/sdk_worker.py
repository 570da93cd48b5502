"""The process in which one tool is measured: `python -m benchmarks.sdk_worker TOOL sync|async`.

Runs in the tool's own environment, takes commands as JSON lines on its input and answers each with one.
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
from benchmarks.memory_network import URL, MemoryNetwork, reply_of
from benchmarks.sdk_tools import sdk_tool
from benchmarks.sdk_tools.tool import Telemetry
from phasemeter.testing import chat_chunk, chat_events

REQUEST: Mapping[str, Any] = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "Say something."}],
    "stream": True,
    "stream_options": {"include_usage": True},
}

_WORDS = (
    "the",
    "answer",
    "of",
    "a",
    "model",
    "is",
    "made",
    "out",
    "several",
    "different",
    "tokens",
)


class Discard(SpanExporter):
    """Counts spans and lets them go."""

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Any) -> SpanExportResult:
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class CostWorker:
    """One tool on one client over the network in memory."""

    def __init__(self, name: str, *, is_async: bool) -> None:
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
        if is_async:
            self._runner = asyncio.Runner()
            client: Any = openai.AsyncOpenAI(
                base_url=URL, api_key="k", http_client=self._network.async_client()
            )
        else:
            client = openai.OpenAI(base_url=URL, api_key="k", http_client=self._network.client())
        self._client = sdk_tool(name).timed(client, self._telemetry)

    def cost(self, chunks: int, streams: int) -> dict[str, object]:
        """Return the CPU time of the whole process for so many streams, one after the other."""
        self._network.reads = _reads(chunks)
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
        self._network.reads = _reads(chunks)
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

    def _consume(self) -> int:
        seen = 0
        for _ in self._client.chat.completions.create(**REQUEST):
            seen += 1
        return seen

    async def _consume_async(self, streams: int) -> int:
        seen = 0
        for _ in range(streams):
            async for _ in await self._client.chat.completions.create(**REQUEST):
                seen += 1
        await until_idle(asyncio.get_running_loop())
        return seen

    def _flush(self) -> None:
        self._telemetry.tracer_provider.force_flush()
        for flush in self._telemetry.flushes:
            flush()

    def _count_run(self, run: Mapping[str, Any]) -> None:
        self._runs += 1


def _reads(chunks: int) -> list[bytes]:
    """Return an answer whose tokens differ, as those of a real one do."""
    events = [data for _, data in chat_events(kinds=("content",) * chunks)]
    tokens = [
        chat_chunk({"content": f" {_WORDS[one * 7 % len(_WORDS)]}{one}"}) for one in range(chunks)
    ]
    return reply_of([events[0], *tokens, *events[1 + chunks :]])


def _commands() -> Iterator[tuple[str, dict[str, Any]]]:
    for line in sys.stdin:
        command = json.loads(line)
        yield command.pop("do"), command


def main() -> None:
    """Answer commands until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints is no answer
    name, how = sys.argv[1:]
    worker = CostWorker(name, is_async=how == "async")
    known: dict[str, Callable[..., dict[str, object]]] = {"cost": worker.cost, "hold": worker.hold}
    for what, arguments in _commands():
        answer = known[what](**arguments)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
