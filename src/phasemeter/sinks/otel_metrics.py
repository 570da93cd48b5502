"""The metrics of one response, recorded when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, UpDownCounter

from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.metrics import DECODE, ITL, TPOT, TTFA, TTFE, TTFT, Metric
from phasemeter.sinks import semconv as names
from phasemeter.sinks.backlog import Backlog
from phasemeter.sinks.otel_attributes import error_type_of, request_attributes
from phasemeter.sinks.semconv import Instrument, Semconv
from phasemeter.transports.request import RequestInfo

_Labels = dict[str, str | int]
_Samples = tuple[Instrument, Iterable[int], _Labels]
"""Of one instrument; times are in ns, whatever its unit."""
_Recording = tuple[Callable[..., None], Sequence[float], _Labels, Context]

_OURS: tuple[tuple[Instrument, Metric], ...] = (
    (names.CLIENT_TIME_TO_FIRST_TOKEN, TTFT),
    (names.CLIENT_PREFILL_DURATION, TTFT),
    (names.CLIENT_TIME_TO_FIRST_ANSWER, TTFA),
    (names.CLIENT_DECODE_DURATION, DECODE),
    (names.CLIENT_INTER_TOKEN_LATENCY, ITL),
    (names.CLIENT_TIME_PER_OUTPUT_TOKEN, TPOT),
)
_NO_SPAN = Context({"phasemeter": "no span"})
"""A context without a span; an empty one would stand for the current one."""
_BATCH_SAMPLES = 8
"""Samples that are recorded in one go, about 0.1 ms."""
_PER_CHUNK = (
    names.TIME_PER_OUTPUT_CHUNK,
    names.OLD_TIME_PER_OUTPUT_CHUNK,
    names.CLIENT_INTER_TOKEN_LATENCY,
)


class MetricEmitter:
    """Records through one OpenTelemetry meter, about 15 us a sample, in slices under asyncio.

    Args:
        meter: Meter of the application's provider.
        semconv: Conventions whose names are used.
        label_allow_list: Tags that become attributes.
        per_chunk: Record the metrics that take a sample a chunk.
    """

    def __init__(
        self,
        meter: Meter,
        semconv: Semconv,
        label_allow_list: Collection[str],
        *,
        per_chunk: bool = True,
    ) -> None:
        self._label_allow_list = label_allow_list
        self._instruments = {
            one.name: _create(meter, one)
            for one in names.INSTRUMENTS
            if names.emitted(one, semconv) and (per_chunk or one not in _PER_CHUNK)
        }
        self._acts = {
            name: one.record if isinstance(one, Histogram) else one.add
            for name, one in self._instruments.items()
        }
        self._backlog: Backlog[_Recording] = Backlog(_record)
        self._dropped = 0

    def stream_started(self, request: RequestInfo) -> None:
        """Count a stream as active."""
        self._add(names.STREAMS_ACTIVE, 1, self._labels(request))

    def stream_ended(self, request: RequestInfo) -> None:
        """Count a stream as no longer active."""
        self._add(names.STREAMS_ACTIVE, -1, self._labels(request))

    def emit(self, request: RequestInfo, timeline: Timeline, context: Context) -> None:
        """Record a response; `context` lets exemplars point to its span.

        Of the samples a chunk only the longest carries it: that is the one to be looked at, and offering
        each as an exemplar costs a fifth more.
        """
        labels = self._labels(request)
        if timeline.response_model is not None:
            labels[names.RESPONSE_MODEL] = timeline.response_model
        self._backlog.add(self._recordings(timeline, labels, context), len(timeline.events) + 1)
        if self._backlog.dropped > self._dropped:
            self._add(names.SAMPLES_DROPPED, self._backlog.dropped - self._dropped, labels)
            self._dropped = self._backlog.dropped

    def drain(self) -> None:
        """Record everything that is put off."""
        self._backlog.drain()

    def _recordings(
        self, timeline: Timeline, labels: _Labels, context: Context
    ) -> Iterator[_Recording]:
        for instrument, samples, with_labels in chain(
            _of_conventions(timeline, labels), _of_ours(timeline, labels)
        ):
            act = self._acts.get(instrument.name)
            if act is None:
                continue
            in_s = instrument.unit == "s"
            values: list[float] = [one / 1e9 for one in samples] if in_s else list(samples)
            if len(values) <= 1:
                yield act, values, with_labels, context
                continue
            longest = values.index(max(values))
            yield act, values[longest : longest + 1], with_labels, context
            others = [*values[:longest], *values[longest + 1 :]]
            for start in range(0, len(others), _BATCH_SAMPLES):
                yield act, others[start : start + _BATCH_SAMPLES], with_labels, _NO_SPAN

    def _labels(self, request: RequestInfo) -> _Labels:
        labels = dict(request_attributes(request))
        for name, value in request.tags.items():
            if name in self._label_allow_list:
                labels[names.TAG_PREFIX + name] = value
        return labels

    def _add(self, instrument: Instrument, amount: int, labels: _Labels) -> None:
        self._acts[instrument.name](amount, labels)


def _record(recording: _Recording) -> None:
    act, values, labels, context = recording
    for value in values:
        act(value, labels, context)


def _create(meter: Meter, instrument: Instrument) -> Histogram | Counter | UpDownCounter:
    name, unit, about = instrument.name, instrument.unit, instrument.description
    if instrument.kind == "counter":
        return meter.create_counter(name, unit, about)
    if instrument.kind == "up_down_counter":
        return meter.create_up_down_counter(name, unit, about)
    return meter.create_histogram(
        name, unit, about, explicit_bucket_boundaries_advisory=instrument.buckets
    )


def _of_conventions(timeline: Timeline, labels: _Labels) -> Iterator[_Samples]:
    error_type = error_type_of(timeline)
    with_error = labels if error_type is None else {**labels, names.ERROR_TYPE: error_type}
    duration_ns = timeline.ended_ns - timeline.started_ns
    for duration in (names.DURATION, names.OLD_DURATION):
        yield duration, (duration_ns,), with_error
    if timeline.streamed:
        for first in (names.TIME_TO_FIRST_CHUNK, names.OLD_TIME_TO_FIRST_CHUNK):
            yield first, TTFE.samples(timeline), labels
        for each in (names.TIME_PER_OUTPUT_CHUNK, names.OLD_TIME_PER_OUTPUT_CHUNK):
            # Not those that the application made itself: they are no time of the server's output.
            yield each, timeline.gaps_ns(), labels
    yield from _usage(timeline, labels, with_error)


def _usage(timeline: Timeline, labels: _Labels, with_error: _Labels) -> Iterator[_Samples]:
    """Token counts. The counters take 0 where no usage came, as the conventions ask: a sum stays true.

    The distributions take nothing then: the conventions ask for 0, which would be a false sample.
    """
    usage = timeline.usage
    for counter, tokens in (
        (names.INPUT_TOKENS, usage.input_tokens),
        (names.OUTPUT_TOKENS, usage.output_tokens),
    ):
        # The server does not tell what kinds of tokens it counted.
        yield counter, (tokens or 0,), {**labels, names.TOKEN_MODALITY: "unknown"}
    for counter, tokens in (
        (names.CACHE_READ_TOKENS, usage.cached_input_tokens),
        (names.REASONING_TOKENS, usage.reasoning_tokens),
    ):
        if tokens is not None:
            yield counter, (tokens,), {**labels, names.TOKEN_MODALITY: "unknown"}
    for histogram, kind, tokens in (
        (names.OPERATION_INPUT_TOKENS, "input", usage.input_tokens),
        (names.OPERATION_OUTPUT_TOKENS, "output", usage.output_tokens),
    ):
        if tokens is not None:
            yield histogram, (tokens,), with_error
            yield names.OLD_TOKEN_USAGE, (tokens,), {**with_error, names.TOKEN_TYPE: kind}


def _of_ours(timeline: Timeline, labels: _Labels) -> Iterator[_Samples]:
    if timeline.outcome is Outcome.OK:
        for instrument, metric in _OURS:
            yield instrument, metric.samples(timeline), labels
        if timeline.consumer_waits_ns:
            yield names.CLIENT_CONSUMER_WAIT, (sum(timeline.consumer_waits_ns),), labels
