"""The `/metrics` page: vLLM's names, so that one scraper reads both, and a few of our own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from phasemeter.lab.elastic import TURNS

if TYPE_CHECKING:
    from phasemeter.lab.engine import Engine, StepTruth
    from phasemeter.lab.truth import RequestTruth

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class EngineMetrics:
    """Counters and histograms of one engine, in a registry of their own.

    Counters of tokens follow the engine's steps; histograms are filled as requests end, but
    inter-token latency, which is filled at every token.
    """

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        self._engine_labels = {"model_name": engine.config.served_model_name, "engine": "0"}
        self._add_gauges(engine)
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Prompt tokens computed.")
        self._output_tokens = self._counter("vllm:generation_tokens", "Tokens generated.")
        self._steps = self._counter("phasemeter_lab_steps", "Engine steps.")
        self._role = engine.role
        self._switches = self._counter(
            "phasemeter_lab_role_switches", "Changes of role; 0 unless the role is elastic."
        )
        self._outcomes = Counter(
            "phasemeter_lab_requests", "Ended requests.", ["outcome"], registry=self._registry
        )
        self._ttft = self._histogram("vllm:time_to_first_token_seconds", "Received to first token.")
        self._queue = self._histogram("vllm:request_queue_time_seconds", "Received to scheduled.")
        self._prefill = self._histogram(
            "vllm:request_prefill_time_seconds", "Scheduled to first token."
        )
        self._decode = self._histogram("vllm:request_decode_time_seconds", "First to last token.")
        self._e2e = self._histogram("vllm:e2e_request_latency_seconds", "Received to last token.")
        self._itl = self._histogram("vllm:inter_token_latency_seconds", "Token to next token.")

    def page(self) -> bytes:
        """Return the page in the Prometheus text format."""
        return generate_latest(self._registry)

    def count_step(self, step: StepTruth) -> None:
        """Count what a step computed."""
        self._steps.inc()
        if step.role != self._role:
            self._role = step.role
            self._switches.inc()
        self._prompt_tokens.inc(step.prefill_tokens)

    def count_token(self, gap_ns: int | None) -> None:
        """Count a generated token; `gap_ns` is None for the first of a request."""
        self._output_tokens.inc()
        if gap_ns is not None:
            self._itl.observe(gap_ns / 1e9)

    def count_request(self, truth: RequestTruth) -> None:
        """Count an ended request, with its times if it ended well."""
        self._outcomes.labels(truth.outcome).inc()
        request = truth.request
        scheduled_ns, first_ns = request.scheduled_ns, request.first_token_ns
        last_ns = request.last_token_ns
        if truth.outcome != "ok" or scheduled_ns is None or first_ns is None or last_ns is None:
            return
        self._queue.observe((scheduled_ns - request.received_ns) / 1e9)
        self._ttft.observe((first_ns - request.received_ns) / 1e9)
        self._prefill.observe((first_ns - scheduled_ns) / 1e9)
        self._decode.observe((last_ns - first_ns) / 1e9)
        self._e2e.observe((last_ns - request.received_ns) / 1e9)

    def _add_gauges(self, engine: Engine) -> None:
        config, published = engine.config, engine.published
        capacity = config.max_num_seqs * config.max_model_len
        gauge = self._gauge
        gauge("vllm:num_requests_running", "In a slot.").set_function(lambda: len(engine.running))
        gauge("vllm:num_requests_waiting", "Queued.").set_function(lambda: len(engine.waiting))
        gauge("vllm:kv_cache_usage_perc", "Tokens cached over capacity, 0 to 1.").set_function(
            lambda: engine.cached_tokens / capacity
        )
        gauge("phasemeter_lab_slots_used", "Slots running or held.").set_function(
            lambda: engine.used_slots
        )
        if published is not None:
            gauge("phasemeter_lab_handoffs_held", "Slots held for a decode engine.").set_function(
                lambda: published.held_slots
            )
            gauge("phasemeter_lab_handoffs_expired", "Leases that ran out.").set_function(
                lambda: published.expired_total
            )
        role = Gauge(
            "phasemeter_lab_role", "1 for the present role.", ["role"], registry=self._registry
        )
        for name in TURNS if engine.elastic is not None else (config.role,):
            role.labels(name).set_function(partial(_has_role, engine, name))
        info = Gauge(
            "phasemeter_lab_info", "Settings.", ["role", "policy"], registry=self._registry
        )
        info.labels(config.role, config.policy).set(1)

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(name, text, list(self._engine_labels), registry=self._registry)
        return gauge.labels(**self._engine_labels)

    def _counter(self, name: str, text: str) -> Counter:
        counter = Counter(name, text, list(self._engine_labels), registry=self._registry)
        return counter.labels(**self._engine_labels)

    def _histogram(self, name: str, text: str) -> Histogram:
        labels = list(self._engine_labels)
        histogram = Histogram(name, text, labels, registry=self._registry, buckets=_SECONDS)
        return histogram.labels(**self._engine_labels)


def _has_role(engine: Engine, name: str) -> float:
    return float(engine.role == name)
