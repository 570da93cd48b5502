"""Very many streams through a wrapped client: nothing of them may stay behind.

Usage: python -m benchmarks.sdk_soak [--sequential N] [--concurrent N] [--client openai|httpx2] [--json]

Sequential streams run over the network in memory, one in twenty closed early and one in twenty dropped.
Concurrent ones run over sockets against a server that holds them all open at the same time, several times;
the bare client does the same in a process of its own before, as the control. Spans, HDR histograms and
record files are on, concurrent also OpenTelemetry metrics. Exit status 1 if a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import openai
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from rich.console import Console
from rich.table import Table

import phasemeter
from benchmarks.memory_network import URL, MemoryNetwork, reply_of
from benchmarks.sdk_process import ROOT
from benchmarks.server_process import piped_server
from benchmarks.soak_checks import Check, Sample, equal_check, growth_checks
from benchmarks.soak_server import raise_file_limit
from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.testing import chat_events

if TYPE_CHECKING:
    from opentelemetry.context import Context

_TOKENS = 2
_SAMPLES = 50
_FEWEST_SAMPLES = 6
_EXITS_EVERY = 20
_ANSWER_S = 60.0
_A_CLIENT = 500
"""Streams that share a client: httpcore's pool looks through all its connections for each request."""
_BURSTS = 9
_TRACED_LIMIT_BYTES = 20_000
_TRACED_RUNS = 4
_WAIT_S = 900.0
_GAP_S = 0.25

BODY: dict[str, Any] = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "Say something."}],
    "stream": True,
}


class CountSpans(SpanProcessor):
    """Counts spans as they start and end, and keeps none."""

    def __init__(self) -> None:
        self.started = 0
        self.ended = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.ended += 1


class Timed:
    """A Meter with everything on, and the counts of what came out of it."""

    def __init__(
        self, folder: Path, *, metrics: bool, more: Sequence[phasemeter.Sink] = ()
    ) -> None:
        self.spans = CountSpans()
        self.outcomes: dict[str, int] = {}
        provider = TracerProvider()
        provider.add_span_processor(self.spans)
        self._otel = phasemeter.OtelSink(
            tracer_provider=provider,
            meter_provider=(
                MeterProvider([InMemoryMetricReader()]) if metrics else NoOpMeterProvider()
            ),
        )
        self.meter = phasemeter.Meter(
            sinks=[
                phasemeter.CallbackSink(self._count),
                phasemeter.HdrSink(),
                self._otel,
                phasemeter.RecordSink(folder / "records.jsonl", max_bytes=4_000_000, keep=1),
                *more,
            ]
        )

    @property
    def records(self) -> int:
        """Responses that were reported."""
        return sum(self.outcomes.values())

    def settle(self) -> None:
        """Have everything reported that was put off, or dropped without a close."""
        gc.collect()
        self.meter.snapshot()  # a use of the Meter: what was dropped is reported
        self._otel.close()  # records what waits for its turn

    def checks(self, streams: int) -> list[Check]:
        """Return the checks of the counts after so many streams."""
        self.settle()
        told = ", ".join(f"{name} {count:,}" for name, count in sorted(self.outcomes.items()))
        return [
            Check("outcomes", told, self.records == streams),
            equal_check("records", self.records, streams),
            equal_check("spans ended", self.spans.ended, self.spans.started),
        ]

    def _count(self, timeline: phasemeter.Timeline) -> None:
        name = timeline.outcome.value
        self.outcomes[name] = self.outcomes.get(name, 0) + 1


def sequential(
    streams: int,
    client: str,
    folder: Path,
    say: Callable[[str], object],
    *,
    metrics: bool = True,
    samples: int = _SAMPLES,
    limit_s: float = float("inf"),
) -> list[Check]:
    """Run streams one after the other over the network in memory.

    Args:
        streams: How many.
        client: `openai` or `httpx2`.
        folder: Takes the record files.
        say: Takes a line of progress.
        metrics: Whether OpenTelemetry metrics are recorded as well.
        samples: How often the process is looked at.
        limit_s: Ends it early; what was done until then is checked.
    """
    network = MemoryNetwork(_reads())
    timed = Timed(folder, metrics=metrics)
    run, wrapped = {"openai": _openai_streams, "httpx2": _httpx_streams}[client](network, timed)
    seen: list[Sample] = []
    step = streams // samples
    started_ns = now_ns()
    while len(seen) < samples:
        run(step)
        timed.settle()
        seen.append(Sample.take((len(seen) + 1) * step))
        took_s = (now_ns() - started_ns) / NS_PER_S
        say(f"{seen[-1].streams:,} streams, {took_s:,.0f} s, {seen[-1].rss_bytes / 1e6:.1f} MB")
        if took_s > limit_s and len(seen) >= _FEWEST_SAMPLES:
            break
    checks = timed.checks(len(seen) * step)
    checks += growth_checks(seen)
    checks.append(_traced(lambda: run(max(50, min(step // 10, 2000))), timed))
    wrapped.close()
    checks.append(equal_check("connections left open", network.open_connections, 0))
    timed.meter.close()
    return checks


def _traced(run: Callable[[], None], timed: Timed) -> Check:
    """Trace the allocations of some more streams, four times: a leak adds something every time.

    A single time may add a histogram, when a metric (a stall, say) has its first sample.
    """
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(_TRACED_RUNS):
            run()
            timed.settle()
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    grown_bytes = min(later - earlier for earlier, later in pairwise(sizes))
    return Check("traced memory", f"{grown_bytes:+,} bytes", grown_bytes <= _TRACED_LIMIT_BYTES)


def _reads() -> list[bytes]:
    return reply_of([data for _, data in chat_events(kinds=("content",) * _TOKENS)])


def _openai_streams(network: MemoryNetwork, timed: Timed) -> tuple[Callable[[int], None], Any]:
    client = timed.meter.wrap(
        openai.OpenAI(base_url=URL, api_key="k", http_client=network.client(), max_retries=0)
    )

    def run(count: int) -> None:
        for number in range(count):
            stream = client.chat.completions.create(**BODY)
            exit_number = number % _EXITS_EVERY
            for _ in stream:
                if exit_number < 2:
                    break
            if exit_number == 0:
                stream.close()

    return run, client


def _httpx_streams(network: MemoryNetwork, timed: Timed) -> tuple[Callable[[int], None], Any]:
    client: httpx2.Client = timed.meter.wrap(network.client())
    url = f"{URL}/chat/completions"

    def run(count: int) -> None:
        for number in range(count):
            exit_number = number % _EXITS_EVERY
            response = client.send(client.build_request("POST", url, json=BODY), stream=True)
            for _ in response.iter_raw():
                if exit_number < 2:
                    break
            if exit_number != 1:
                response.close()

    return run, client


def concurrent(
    streams: int,
    folder: Path,
    say: Callable[[str], object],
    *,
    bursts: int = _BURSTS,
    gap_s: float = _GAP_S,
    control: Sequence[Sample] | None = None,
    more: Sequence[phasemeter.Sink] = (),
) -> list[Check]:
    """Run bursts of streams that are all open at the same time, over sockets.

    Args:
        streams: How many at a time.
        folder: Takes the record files.
        say: Takes a line of progress.
        bursts: How often.
        gap_s: Time between two tokens of a stream.
        control: What `bare_bursts` returned for as many.
        more: Sinks to be used as well.

    Raises:
        RuntimeError: If the system allows too few open files.
    """
    timed = Timed(folder, metrics=True, more=more)
    samples, open_together = asyncio.run(_bursts(streams, bursts, say, gap_s, timed))
    checks = timed.checks(bursts * streams)
    checks.append(equal_check("streams open together", open_together, streams))
    checks += growth_checks(samples, control)
    timed.meter.close()
    return checks


def bare_bursts(streams: int, bursts: int, say: Callable[[str], object]) -> list[Sample]:
    """Run the same bursts with the bare client, in a process of its own.

    Raises:
        subprocess.CalledProcessError: If that fails.
    """
    samples: list[Sample] = []
    command = [sys.executable, "-m", __spec__.name, "--bare", str(streams), "--bursts", str(bursts)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            samples.append(Sample(**json.loads(line)))
            say(f"bare, burst {len(samples)}: {samples[-1].rss_bytes / 1e6:.1f} MB")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return samples


async def _bursts(
    streams: int, bursts: int, say: Callable[[str], object], gap_s: float, timed: Timed | None
) -> tuple[list[Sample], int]:
    """Return the samples after each burst, and how many streams were open together."""
    if raise_file_limit() < streams + 200:
        msg = f"{streams} sockets need a limit of open files of {streams + 200}; raise ulimit -n"
        raise RuntimeError(msg)
    samples: list[Sample] = []
    with _server(streams, gap_s) as (port, most_open):
        for number in range(bursts):
            started_ns = now_ns()
            async with _clients(port, streams, timed) as clients:
                await asyncio.wait_for(
                    asyncio.gather(
                        *(_consume(clients[one % len(clients)]) for one in range(streams))
                    ),
                    _WAIT_S,
                )
            del clients
            await asyncio.sleep(0.1)
            if timed is not None:
                timed.settle()
            seen = Sample.take((number + 1) * streams)
            samples.append(seen)
            took_s = (now_ns() - started_ns) / NS_PER_S
            if timed is None:
                print(json.dumps(asdict(seen)), flush=True)
            say(
                f"burst {number + 1}: {took_s:.1f} s, {seen.rss_bytes / 1e6:.1f} MB, "
                f"{seen.blocks:,} blocks"
            )
        return samples, most_open()


@asynccontextmanager
async def _clients(port: int, streams: int, timed: Timed | None) -> AsyncIterator[list[Any]]:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with AsyncExitStack() as running:
        clients = []
        for _ in range(-(-streams // _A_CLIENT)):
            http = httpx2.AsyncClient(limits=limits, timeout=_WAIT_S, trust_env=False)
            client = openai.AsyncOpenAI(
                base_url=f"http://127.0.0.1:{port}/v1",
                api_key="k",
                http_client=http,
                max_retries=0,
            )
            entered = await running.enter_async_context(client)
            clients.append(entered if timed is None else timed.meter.wrap(entered))
        yield clients


async def _consume(client: Any) -> None:
    async for _ in await client.chat.completions.create(**BODY):
        pass


@contextmanager
def _server(streams: int, gap_s: float) -> Iterator[tuple[int, Callable[[], int]]]:
    """Run the server; yields its port, and what asks it for the most streams open together."""
    with piped_server("benchmarks.soak_server", str(streams), str(gap_s)) as (port, process):

        def most_open() -> int:
            stdout, _ = process.communicate(timeout=_ANSWER_S)
            return int(json.loads(stdout)["most_open"])

        yield port, most_open


def main() -> int:
    """Run both parts and report."""
    options = _options()
    console = Console(stderr=True)
    if options.bare:
        asyncio.run(_bursts(options.bare, options.bursts, console.print, _GAP_S, None))
        return 0
    parts: dict[str, list[Check]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.sequential:
            title = f"sequential streams, {options.client}"
            parts[title] = sequential(
                options.sequential,
                options.client,
                folder / "sequential",
                console.print,
                metrics=options.metrics,
                limit_s=options.minutes * 60,
            )
        if options.concurrent:
            title = f"{options.concurrent:,} concurrent streams, {options.bursts} times, openai"
            parts[title] = concurrent(
                options.concurrent,
                folder / "concurrent",
                console.print,
                bursts=options.bursts,
                control=bare_bursts(options.concurrent, options.bursts, console.print),
            )
    if options.json:
        print(json.dumps({title: [asdict(one) for one in found] for title, found in parts.items()}))
    else:
        _show(parts)
    return 0 if all(check.holds for found in parts.values() for check in found) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequential", type=int, default=1_000_000, help="0 for none")
    parser.add_argument("--concurrent", type=int, default=10_000, help="0 for none")
    parser.add_argument("--bursts", type=int, default=_BURSTS, help="concurrent: how often")
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--client", choices=["openai", "httpx2"], default="httpx2")
    parser.add_argument(
        "--metrics", action="store_true", help="sequential: OpenTelemetry metrics as well"
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="sequential: end after so long"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return parser.parse_args()


def _show(parts: dict[str, list[Check]]) -> None:
    for title, found in parts.items():
        table = Table("what", "found", "as it must be", title=title)
        for check in found:
            table.add_row(check.what, check.found, "yes" if check.holds else "NO")
        Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    sys.exit(main())
