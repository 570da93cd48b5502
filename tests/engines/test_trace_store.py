"""Spans sent by OTLP to a real trace store and asked back: trees, phases, attributes, no text."""

import uuid

import openai
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import phasemeter
from phasemeter.core.timeline import Outcome

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

REQUESTS, TOKENS = 5, 16
SECRET = f"nobody should see {uuid.uuid4().hex}"
# The store keeps times in microseconds.
ROUNDING_S = 3e-6


class Traced:
    """What an application did under its own spans."""

    def __init__(self, server, store):
        self.provider = TracerProvider(resource=Resource.create({"service.name": "app"}))
        exporter = OTLPSpanExporter(endpoint=f"{store.url}/v1/traces", timeout=30)
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self.provider.get_tracer("app")
        self.timelines = []
        self.answers = []
        sink = phasemeter.OtelSink(tracer_provider=self.provider)
        meter = phasemeter.Meter([sink, phasemeter.CallbackSink(self.timelines.append)])
        plain = openai.OpenAI(base_url=f"{server.url}/v1", api_key="sk-secret", max_retries=0)
        with meter.wrap(plain) as client:
            for number in range(REQUESTS):
                with self.tracer.start_as_current_span(f"handle {number}"):
                    self._ask(client)
            self._ask(client, without_parent=True)
            with self.tracer.start_as_current_span("cancelled"):
                stream = self._stream(client, 2000)
                for _ in zip(range(5), stream, strict=False):  # the prelude and a few tokens
                    pass
                stream.close()
            with (
                self.tracer.start_as_current_span("refused", record_exception=False),
                pytest.raises(openai.BadRequestError),
            ):
                self._stream(client, 10**6)
        meter.close()
        assert self.provider.force_flush(30_000)
        self.provider.shutdown()

    def _stream(self, client, tokens):
        return client.chat.completions.create(
            model="lab",
            messages=[{"role": "user", "content": SECRET}],
            stream=True,
            stream_options={"include_usage": True},
            max_tokens=tokens,
            extra_body={"ignore_eos": True},
        )

    def _ask(self, client, *, without_parent=False):
        name = "alone" if without_parent else "answers"
        with phasemeter.tag(feature=name):
            stream = self._stream(client, TOKENS)
        pieces = [one.choices[0].delta.content or "" for one in stream if one.choices]
        self.answers.append("".join(pieces))


@pytest.fixture(scope="module")
def traced(lab, phoenix):
    return Traced(lab, phoenix)


@pytest.fixture(scope="module")
def spans(traced, phoenix, eventually):
    """All of them: a request's, its phases', and the application's."""
    decoded = sum(timeline.decode_s is not None for timeline in traced.timelines)
    assert decoded  # else there is little to see
    expected = 2 * len(traced.timelines) + decoded + REQUESTS + 2
    found = eventually(lambda: spans if len(spans := phoenix.spans()) >= expected else None)
    assert len(found) == expected, sorted(span.name for span in found)
    return found


def children(spans, parent):
    return {span.name: span for span in spans if span.parent_id == parent.span_id}


def under(spans, name):
    """Return the request span under one of the application's, and its phases."""
    (handler,) = (span for span in spans if span.name == name)
    ((request_name, request),) = children(spans, handler).items()
    assert request_name == "chat lab"
    assert request.trace_id == handler.trace_id
    return request, children(spans, request)


@pytest.mark.parametrize("number", range(REQUESTS))
def test_a_request_is_one_tree_under_the_callers_span(traced, spans, number):
    timeline = traced.timelines[number]

    request, phases = under(spans, f"handle {number}")

    assert {request.trace_id} == {phase.trace_id for phase in phases.values()}
    assert not any(children(spans, phase) for phase in phases.values())
    whole_s = (timeline.ended_ns - timeline.started_ns) / 1e9
    assert request.seconds == pytest.approx(whole_s, abs=ROUNDING_S)
    prefill = phases["prefill"]
    assert prefill.start == request.start
    assert prefill.seconds == pytest.approx(timeline.prefill_s, abs=ROUNDING_S)
    if timeline.decode_s is None:  # a loaded machine: all tokens came in one read
        assert set(phases) == {"prefill"}
        return
    assert set(phases) == {"prefill", "decode"}
    decode = phases["decode"]
    assert prefill.end == decode.start
    assert decode.end <= request.end
    assert decode.seconds == pytest.approx(timeline.decode_s, abs=ROUNDING_S)
    last_s = (timeline.last_token_ns - timeline.started_ns) / 1e9
    assert prefill.seconds + decode.seconds == pytest.approx(last_s, abs=2 * ROUNDING_S)


def test_a_request_without_a_caller_is_a_tree_of_its_own(spans):
    (root,) = (span for span in spans if span.parent_id is None and span.name == "chat lab")

    phases = children(spans, root)
    assert phases.keys() - {"decode"} == {"prefill"}
    assert root.attributes["phasemeter.tag.feature"] == "alone"
    assert sum(span.trace_id == root.trace_id for span in spans) == 1 + len(phases)


def test_attributes_are_those_of_the_conventions_and_ours(traced, spans):
    answered = enumerate(traced.timelines[:REQUESTS])
    number, timeline = next(one for one in answered if one[1].decode_s is not None)

    request, phases = under(spans, f"handle {number}")

    told = request.attributes
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.request.model"] == told["gen_ai.response.model"] == "lab"
    assert told["gen_ai.usage.input_tokens"] == timeline.usage.input_tokens
    assert told["gen_ai.usage.output_tokens"] == TOKENS
    assert told["server.address"] == "127.0.0.1"
    assert told["phasemeter.outcome"] == "ok"
    assert told["phasemeter.stamp_source"] == "recv"
    assert told["phasemeter.tag.feature"] == "answers"
    assert told["phasemeter.time_to_first_token"] == pytest.approx(timeline.prefill_s)
    assert 0 < told["phasemeter.gap.p50"] <= told["phasemeter.gap.max"]
    assert phases["prefill"].attributes["phasemeter.phase"] == "prefill"
    assert phases["decode"].attributes["phasemeter.phase"] == "decode"
    assert request.status == "UNSET"


def test_a_closed_stream_is_no_error_and_a_refused_request_is(traced, spans):
    closed, closed_phases = under(spans, "cancelled")
    refused, refused_phases = under(spans, "refused")

    assert traced.timelines[-2].outcome is Outcome.CANCELLED
    assert closed.status == "UNSET"
    assert closed.attributes["phasemeter.outcome"] == "cancelled"
    assert "prefill" in closed_phases
    assert traced.timelines[-1].outcome is Outcome.ERROR
    assert refused.status == "ERROR"
    assert refused.attributes["error.type"]
    assert refused.attributes["http.response.status_code"] == 400
    assert set(refused_phases) == {"prefill"}


def test_nothing_of_prompt_answer_or_key_is_anywhere_in_the_store(traced, spans, phoenix):
    kept = b"".join(path.read_bytes() for path in phoenix.folder.rglob("*") if path.is_file())

    assert b"chat lab" in kept  # the names of the spans are there to be found
    for text in (SECRET, "sk-secret", *traced.answers):
        assert len(text) > 5
        assert text.encode() not in kept
        assert all(text not in str(span.attributes) for span in spans)
