"""A real Prometheus scrapes our metrics and those of the lab engine, and answers what we recorded."""

import uuid
from bisect import bisect_left
from urllib.parse import urlsplit

import openai
import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, generate_latest, start_http_server

import phasemeter
from phasemeter.metrics import BUILTIN
from tests.engines.prometheus_server import running_prometheus
from tests.engines.servers import get

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]

REQUESTS, TOKENS = 12, 20

# As they are typed into Grafana: name, metric of ours that its samples must be.
HISTOGRAMS = {
    "gen_ai_client_inference_time_to_first_chunk_seconds": "ttfe",
    "gen_ai_client_inference_time_per_output_chunk_seconds": "gap",
    "phasemeter_client_time_to_first_token_seconds": "ttft",
    "phasemeter_client_time_to_first_answer_seconds": "ttfa",
    "phasemeter_client_prefill_duration_seconds": "ttft",
    "phasemeter_client_decode_duration_seconds": "decode",
    "phasemeter_client_time_per_output_token_seconds": "tpot",
}
LABELS = {
    "gen_ai_operation_name": "chat",
    "gen_ai_request_model": "lab",
    "gen_ai_response_model": "lab",
    "server_address": "127.0.0.1",
    "phasemeter_tag_feature": "answers",
}


class Application:
    """A timed client whose metrics are exposed to Prometheus, and what it measured."""

    def __init__(self, server):
        self.registry = CollectorRegistry()
        self._reader = PrometheusMetricReader(registry=self.registry)
        self._provider = MeterProvider([self._reader])
        self._http, self._thread = start_http_server(0, "127.0.0.1", self.registry)
        self.at = f"127.0.0.1:{self._http.server_port}"
        self.timelines = []
        sink = phasemeter.OtelSink(meter_provider=self._provider, label_allow_list=["feature"])
        self._meter = phasemeter.Meter([sink, phasemeter.CallbackSink(self.timelines.append)])
        self.client = self._meter.wrap(
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        )

    def stream(self, tokens=TOKENS):
        content = f"a question nobody should see {uuid.uuid4().hex}"
        with phasemeter.tag(feature="answers", user="not allowed"):
            return self.client.chat.completions.create(
                model="lab",
                messages=[{"role": "user", "content": content}],
                stream=True,
                stream_options={"include_usage": True},
                max_tokens=tokens,
                extra_body={"ignore_eos": True},
            )

    def samples_s(self, name):
        """Return the samples of one of our metrics in seconds, over all timelines."""
        metric = next(one for one in BUILTIN if one.name == name)
        return [ns / 1e9 for timeline in self.timelines for ns in metric.samples(timeline)]

    def close(self):
        self.client.close()
        self._meter.close()
        self._provider.shutdown()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)


@pytest.fixture(scope="module")
def application(lab):
    running = Application(lab)
    yield running
    running.close()


@pytest.fixture(scope="module")
def prometheus(prometheus_environment, application, lab, tmp_path_factory):
    targets = {"app": application.at, "lab": urlsplit(lab.url).netloc}
    folder = tmp_path_factory.mktemp("prometheus")
    with running_prometheus(prometheus_environment, folder, targets) as server:
        yield server


@pytest.fixture(scope="module")
def measured(application, prometheus, eventually):
    """The application after its requests, all of them scraped."""
    for _ in range(REQUESTS):
        assert list(application.stream())
    expected = {name: len(application.samples_s(of)) for name, of in HISTOGRAMS.items()}

    def scraped():  # a scrape may have come while the last request was being recorded
        return all(prometheus.value(f"{name}_count") == n for name, n in expected.items())

    eventually(scraped)
    return application


def selector(labels):
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_every_bucket_holds_what_was_recorded(measured, prometheus, name):
    samples = sorted(measured.samples_s(HISTOGRAMS[name]))

    assert prometheus.value(f"{name}_count{selector(LABELS)}") == len(samples) > 0
    assert prometheus.value(f"{name}_sum") == pytest.approx(sum(samples))
    buckets = prometheus.ask(f"{name}_bucket")
    assert len(buckets) > 10
    for bucket in buckets:
        upper = float(bucket.labels["le"])
        assert bucket.value == sum(sample <= upper for sample in samples)


def test_a_dashboards_percentile_lies_in_the_bucket_of_the_true_one(measured, prometheus):
    name = "phasemeter_client_time_to_first_token_seconds"
    samples = sorted(measured.samples_s("ttft"))
    bounds = sorted(float(one.labels["le"]) for one in prometheus.ask(f"{name}_bucket"))

    shown = prometheus.value(f"histogram_quantile(0.5, sum by (le) ({name}_bucket))")

    true_place = bisect_left(bounds, samples[(len(samples) - 1) // 2])
    assert bisect_left(bounds, shown) == pytest.approx(true_place, abs=1)


def test_tokens_are_those_of_the_usage(measured, prometheus):
    inputs = [timeline.usage.input_tokens for timeline in measured.timelines]

    usage = "gen_ai_client_inference_usage"
    assert prometheus.value(f"{usage}_input_tokens_total{selector(LABELS)}") == sum(inputs)
    assert prometheus.value(f"{usage}_output_tokens_total") == REQUESTS * TOKENS
    distribution = "gen_ai_client_inference_operation_output_tokens"
    assert prometheus.value(f"{distribution}_count") == REQUESTS
    assert prometheus.value(f'{distribution}_bucket{{le="16"}}') == 0
    assert prometheus.value(f'{distribution}_bucket{{le="64"}}') == REQUESTS


def test_labels_are_an_allow_list_and_hold_no_text(measured, prometheus):
    found = prometheus.ask('{job="app"}')

    assert len(found) > 100
    for series in found:
        ours = {name for name in series.labels if name.startswith(("gen_ai", "phasemeter"))}
        assert ours <= {*LABELS, "gen_ai_provider_name", "gen_ai_token_modality"}
        assert "nobody should see" not in str(series.labels)
        assert "not allowed" not in str(series.labels)


def test_a_stream_in_flight_is_counted_until_it_ends(measured, prometheus, eventually):
    name = "phasemeter_client_streams_active"
    assert prometheus.value(name) == 0

    with measured.stream(tokens=2000) as stream:
        next(stream)
        eventually(lambda: prometheus.value(name) == 1)
    eventually(lambda: prometheus.value(name) == 0)


def test_the_lab_engine_counts_what_the_client_was_told(measured, prometheus, eventually):
    assert prometheus.value('up{job="lab"}') == 1
    inputs = sum(timeline.usage.input_tokens or 0 for timeline in measured.timelines)
    prompts = prometheus.value("vllm:prompt_tokens_total")
    assert prompts >= inputs > 0
    name = "vllm:time_to_first_token_seconds"
    eventually(lambda: prometheus.value(f"{name}_count") >= REQUESTS)
    # What the client waits for the first token holds what the server says of it.
    server_s = prometheus.value(f"{name}_sum") / prometheus.value(f"{name}_count")
    client_s = prometheus.value("phasemeter_client_time_to_first_token_seconds_sum") / REQUESTS
    assert client_s > 0.9 * server_s


def test_expositions_are_right(measured, prometheus, lab):
    ours = prometheus.checked(generate_latest(measured.registry))
    engines = prometheus.checked(get(f"{lab.url}/metrics"))

    assert ours.returncode == 0, ours.stderr
    # Names with a colon are vLLM's, which the lab engine shares.
    assert engines.returncode in (0, 3), engines.stderr
    lines = filter(None, engines.stderr.splitlines())
    assert all(line.endswith("metric names should not contain ':'") for line in lines)
