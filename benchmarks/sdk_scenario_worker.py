"""The process in which a tool is watched: `python -m benchmarks.sdk_scenario_worker TOOL sync|async`.

Runs in the tool's own environment. Each command names a scenario and a scripted server to run it on;
the answer is what the tool let out, what reached the user, and what the user's objects were.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from time import sleep
from typing import Any

import openai
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.openai_family import httpx
from benchmarks.sdk_observed import MetricSeen, Observed, SpanSeen
from benchmarks.sdk_tools import sdk_tool
from benchmarks.sdk_tools.tool import Telemetry
from phasemeter.core.clock import PROCESS_ANCHOR, now_ns

MODEL = "scripted"
MESSAGES = [{"role": "user", "content": "Say something."}]
CHAT: Mapping[str, Any] = {"model": MODEL, "messages": MESSAGES, "stream": True}
_LINGER_S = 0.3
"""How long the user stays in a stream after the last chunk that it wanted."""

_TURN_S = 0.03


class Stop(Exception):
    """The user's own exception."""


class Keep(SpanExporter):
    """Keeps every span."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


class Watch:
    """A tool's telemetry, and what it came to since the last look."""

    def __init__(self) -> None:
        self._exporter = Keep()
        self._runs: dict[str, dict[str, Any]] = {}
        delta = AggregationTemporality.DELTA
        self._reader = InMemoryMetricReader(
            preferred_temporality={Histogram: delta, Counter: delta}
        )
        processor = SimpleSpanProcessor(self._exporter)
        tracer_provider = TracerProvider()
        tracer_provider.add_span_processor(processor)
        self.telemetry = Telemetry(
            self._exporter,
            processor,
            tracer_provider,
            MeterProvider([self._reader]),
            self._take_run,
        )

    def ended(self) -> int:
        """Return how many spans have ended."""
        self.telemetry.tracer_provider.force_flush()
        for flush in self.telemetry.flushes:
            flush()
        runs = [run for run in self._runs.values() if run.get("end_time")]
        return len(self._exporter.spans) + len(runs)

    def take(self) -> tuple[list[SpanSeen], list[MetricSeen]]:
        """Return everything since the last call, and forget it."""
        self.ended()
        spans = [_span(span) for span in self._exporter.spans]
        spans += [_span_of_run(run) for run in self._runs.values() if run.get("end_time")]
        self._exporter.spans = []
        self._runs = {}
        return spans, _metrics(self._reader)

    def _take_run(self, run: Mapping[str, Any]) -> None:
        known = {name: value for name, value in run.items() if value is not None}
        self._runs.setdefault(str(run["id"]), {}).update(known)


def _span(span: ReadableSpan) -> SpanSeen:
    return SpanSeen(
        name=span.name,
        is_root=span.parent is None,
        start_unix_ns=span.start_time or 0,
        end_unix_ns=span.end_time or 0,
        status=span.status.status_code.name,
        attributes={
            name: value if isinstance(value, str | int | float | bool) else str(value)
            for name, value in (span.attributes or {}).items()
        },
        events=[(event.name, event.timestamp) for event in span.events],
    )


def _span_of_run(run: Mapping[str, Any]) -> SpanSeen:
    """Return a run of LangSmith's as a span."""
    usage = (run.get("outputs") or {}).get("usage_metadata") or {}
    attributes: dict[str, Any] = {f"usage.{name}": value for name, value in usage.items()}
    if run.get("error"):
        # It keeps the exception's text and stack; the class stands before the bracket.
        attributes["error.type"] = str(run["error"]).partition("(")[0][:60]
    return SpanSeen(
        name=str(run.get("name", "")),
        is_root=run.get("parent_run_id") is None,
        start_unix_ns=_unix_ns(run.get("start_time")),
        end_unix_ns=_unix_ns(run.get("end_time")),
        status="ERROR" if run.get("error") else "UNSET",
        attributes=attributes,
        events=[(event["name"], _unix_ns(event["time"])) for event in run.get("events") or []],
    )


def _unix_ns(value: object) -> int:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return 0
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return round(value.timestamp() * 1e9)


def _metrics(reader: InMemoryMetricReader) -> list[MetricSeen]:
    data = reader.get_metrics_data()
    found: dict[str, tuple[int, float]] = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    if hasattr(point, "bucket_counts"):
                        count, total = found.get(metric.name, (0, 0.0))
                        found[metric.name] = count + point.count, total + point.sum
    return [MetricSeen(name, count, total) for name, (count, total) in found.items()]


class User:
    """Notes what reaches the application."""

    def __init__(self) -> None:
        self.chunks = 0
        self.last_unix_ns: int | None = None
        self.facts: dict[str, Any] = {}

    def got(self) -> None:
        self.chunks += 1
        self.last_unix_ns = PROCESS_ANCHOR.unix_ns_at(now_ns())


def facts_of(stream: Any, kind: type) -> dict[str, Any]:
    """Return what openai's class of streams promises, and whether this one keeps it."""
    return {
        "isinstance": isinstance(stream, kind),
        "type": type(stream) is kind,
        "response": isinstance(getattr(stream, "response", None), httpx.Response),
        "close": callable(getattr(stream, "close", None)),
        "with": hasattr(stream, "__aexit__" if kind is openai.AsyncStream else "__exit__"),
    }


class Blocking:
    """The scenarios with the blocking client."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def consume(self, user: User, pause_ms: float = 0, usage: bool = False) -> None:  # noqa: FBT001, FBT002  arguments come as JSON
        stream = self.client.chat.completions.create(**CHAT, **_usage(usage))
        user.facts |= facts_of(stream, openai.Stream)
        for _ in stream:
            user.got()
            if pause_ms:
                sleep(pause_ms / 1000)

    def close(self, user: User) -> None:
        stream = self.client.chat.completions.create(**CHAT)
        _take(stream, user)
        sleep(_LINGER_S)
        stream.close()
        user.facts["kept"] = stream  # closed, and not collected

    def break_and_drop(self, user: User) -> None:
        stream = self.client.chat.completions.create(**CHAT)
        _take(stream, user)
        sleep(_LINGER_S)

    def leave_with(self, user: User) -> None:
        with self.client.chat.completions.create(**CHAT) as stream:
            _take(stream, user)
            sleep(_LINGER_S)
        user.facts["kept"] = stream

    def raise_in_with(self, user: User) -> None:
        with self.client.chat.completions.create(**CHAT) as stream:
            _take(stream, user)
            raise Stop

    def raw(self, user: User) -> None:
        raw = self.client.chat.completions.with_raw_response.create(**CHAT)
        user.facts["raw"] = type(raw).__name__
        user.facts["headers"] = "content-type" in raw.headers
        for _ in raw.parse():
            user.got()

    def streaming_response(self, user: User) -> None:
        with self.client.chat.completions.with_streaming_response.create(**CHAT) as response:
            user.facts["headers"] = "content-type" in response.headers
            for line in response.iter_lines():
                if line.startswith("data:"):
                    user.got()

    def helper(self, user: User) -> None:
        with self.client.chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
            for _ in stream:
                user.got()
            user.facts["final"] = type(stream.get_final_completion()).__name__

    def completions(self, user: User) -> None:
        for _ in self.client.completions.create(model=MODEL, prompt="Say", stream=True):
            user.got()

    def responses(self, user: User) -> None:
        for _ in self.client.responses.create(model=MODEL, input="Say", stream=True):
            user.got()

    def not_streamed(self, user: User) -> None:
        answer = self.client.chat.completions.create(model=MODEL, messages=MESSAGES)
        user.facts["answer"] = type(answer).__name__
        user.got()


def _usage(wanted: bool) -> dict[str, Any]:  # noqa: FBT001  one flag
    return {"stream_options": {"include_usage": True}} if wanted else {}


def _take(stream: Any, user: User) -> None:
    """Take the role and two tokens, then stop asking."""
    for _ in stream:
        user.got()
        if user.chunks == 3:
            break


async def _atake(stream: Any, user: User) -> None:
    async for _ in stream:
        user.got()
        if user.chunks == 3:
            break


class Async:
    """The same with the async client, and a cancelled task."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def consume(self, user: User, pause_ms: float = 0, usage: bool = False) -> None:  # noqa: FBT001, FBT002  arguments come as JSON
        stream = await self.client.chat.completions.create(**CHAT, **_usage(usage))
        user.facts |= facts_of(stream, openai.AsyncStream)
        async for _ in stream:
            user.got()
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)

    async def close(self, user: User) -> None:
        stream = await self.client.chat.completions.create(**CHAT)
        await _atake(stream, user)
        await asyncio.sleep(_LINGER_S)
        await stream.close()
        user.facts["kept"] = stream

    async def break_and_drop(self, user: User) -> None:
        stream = await self.client.chat.completions.create(**CHAT)
        await _atake(stream, user)
        await asyncio.sleep(_LINGER_S)

    async def leave_with(self, user: User) -> None:
        async with await self.client.chat.completions.create(**CHAT) as stream:
            await _atake(stream, user)
            await asyncio.sleep(_LINGER_S)
        user.facts["kept"] = stream

    async def raise_in_with(self, user: User) -> None:
        async with await self.client.chat.completions.create(**CHAT) as stream:
            await _atake(stream, user)
            raise Stop

    async def cancel(self, user: User) -> None:
        """A task that waits for the next chunk is cancelled."""

        async def all_of_it() -> None:
            async for _ in await self.client.chat.completions.create(**CHAT):
                user.got()

        task = asyncio.create_task(all_of_it())
        while user.chunks < 3 and not task.done():  # noqa: ASYNC110  the user's own count
            await asyncio.sleep(0.005)
        await asyncio.sleep(_LINGER_S)
        task.cancel()
        await task

    async def raw(self, user: User) -> None:
        raw = await self.client.chat.completions.with_raw_response.create(**CHAT)
        user.facts["raw"] = type(raw).__name__
        user.facts["headers"] = "content-type" in raw.headers
        async for _ in raw.parse():
            user.got()

    async def streaming_response(self, user: User) -> None:
        create = self.client.chat.completions.with_streaming_response.create
        async with create(**CHAT) as response:
            user.facts["headers"] = "content-type" in response.headers
            async for line in response.iter_lines():
                if line.startswith("data:"):
                    user.got()

    async def helper(self, user: User) -> None:
        async with self.client.chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
            async for _ in stream:
                user.got()
            user.facts["final"] = type(await stream.get_final_completion()).__name__

    async def completions(self, user: User) -> None:
        create = self.client.completions.create
        async for _ in await create(model=MODEL, prompt="Say", stream=True):
            user.got()

    async def responses(self, user: User) -> None:
        create = self.client.responses.create
        async for _ in await create(model=MODEL, input="Say", stream=True):
            user.got()

    async def not_streamed(self, user: User) -> None:
        answer = await self.client.chat.completions.create(model=MODEL, messages=MESSAGES)
        user.facts["answer"] = type(answer).__name__
        user.got()


class ScenarioWorker:
    """One tool, one client, scenario after scenario."""

    def __init__(self, name: str, *, is_async: bool) -> None:
        self._watch = Watch()
        self._runner = asyncio.Runner() if is_async else None
        options: dict[str, Any] = {"api_key": "k", "max_retries": 0, "timeout": 10}
        kind = openai.AsyncOpenAI if is_async else openai.OpenAI
        client = kind(base_url="http://127.0.0.1:9", **options)
        client = sdk_tool(name).timed(client, self._watch.telemetry)
        self._scenarios: Any = Async(client) if is_async else Blocking(client)

    def scenario(
        self, name: str, url: str, options: Mapping[str, Any], *, follow_up: bool
    ) -> dict[str, Any]:
        """Run a scenario on a server and return what was observed.

        Args:
            name: Method of the scenarios.
            url: Root of the interface.
            options: Arguments of the method.
            follow_up: Whether to send a plain request afterwards where no span has come.
        """
        self._scenarios.client.base_url = url
        self._watch.take()
        user = User()
        raised = self._run(getattr(self._scenarios, name), user, options)
        when = "at once" if self._watch.ended() else None
        self._settle()
        when = when or ("a little later" if self._watch.ended() else None)
        if user.facts.pop("kept", None) is not None:
            self._settle()  # only now can the collector have it
        spans, metrics = self._watch.take()
        when = when or ("when collected" if spans else None)
        if not spans and follow_up:
            spans = self._follow_up()
            when = "with the next request" if spans else None
        observed = Observed(
            raised, spans, when, metrics, user.chunks, user.last_unix_ns, facts=user.facts
        )
        return observed.document()

    def _follow_up(self) -> list[SpanSeen]:
        """Send a request that is read to its end; return the spans of what came before it."""
        started_unix_ns = PROCESS_ANCHOR.unix_ns_at(now_ns())
        self._run(self._scenarios.consume, User(), {})
        self._settle()
        spans, _ = self._watch.take()
        return [span for span in spans if span.start_unix_ns < started_unix_ns]

    def _run(
        self, scenario: Callable[..., Any], user: User, options: Mapping[str, Any]
    ) -> str | None:
        try:
            if self._runner is None:
                scenario(user, **options)
            else:
                self._runner.run(scenario(user, **options))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  it is the finding
            return _qualified(error)
        return None

    def _settle(self) -> None:
        """Give collectors, loops and threads their turn."""
        for _ in range(3):
            gc.collect()
            if self._runner is None:
                sleep(_TURN_S)
            else:
                self._runner.run(asyncio.sleep(_TURN_S))


def _qualified(error: BaseException) -> str:
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def main() -> None:
    """Answer commands until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints is no answer
    name, how = sys.argv[1:]
    worker = ScenarioWorker(name, is_async=how == "async")
    for line in sys.stdin:
        command = json.loads(line)
        command.pop("do")
        answers.write(json.dumps(worker.scenario(**command)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
