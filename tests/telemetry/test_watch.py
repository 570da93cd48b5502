"""Samples of real pages over real sockets: when they are taken, what they hold, and that they end."""

import json
import time

import pytest

from phasemeter.core.clock import now_ns
from phasemeter.load.server_metrics import instances_of, metrics_path
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.telemetry.sample import parse_sample
from phasemeter.telemetry.watch import Condition, watching
from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer


def page(prompt_tokens, running=0):
    text = (
        f"vllm:prompt_tokens_total {prompt_tokens}.0\nvllm:num_requests_running {running}.0\n"
    ).encode()
    headers = (("content-type", "text/plain; version=0.0.4"),)
    return ScriptedReply([ScriptedRead(0, (text,))], headers=headers, framing="length")


def plain(body, status=200, delay_ms=0):
    headers = (("content-type", "text/plain"),)
    return ScriptedReply(
        [ScriptedRead(delay_ms, (body,))], status=status, headers=headers, framing="length"
    )


def target(*urls, decode=()):
    endpoints, decoders = (
        tuple(parse_endpoint(url)[0] for url in given) for given in (urls, decode)
    )
    topology = "separated" if decode else "replicated"
    return Target(topology, endpoints, RequestStyle("chat", "m"), decoders)


def samples_in(folder):
    lines = (folder / "server.jsonl").read_text().splitlines()
    return [parse_sample(json.loads(line)) for line in lines]


def watch(folder, target, seconds=0.0, headers=None):
    with watching(folder, instances_of(target, headers or {}), Condition("mixed", "inject", 2, 4)):
        time.sleep(seconds)
    return samples_in(folder)


def test_an_instance_is_looked_at_before_once_a_second_and_after(tmp_path):
    with ScriptedServer(page(100), page(150), page(900)) as server:
        before_ns = now_ns()
        samples = watch(tmp_path, target(server.url), seconds=1.6)
        after_ns = now_ns()
        heads = [one.head for one in server.served]

    assert [one.moment for one in samples] == ["start", "during", "end"]
    assert [one.values["prompt_tokens"] for one in samples] == [100, 150, 900]
    assert before_ns <= samples[0].t_ns <= samples[1].t_ns <= samples[2].t_ns <= after_ns
    assert {(o.arm, o.condition, o.repeat, o.users, o.role, o.instance) for o in samples} == {
        ("mixed", "inject", 2, 4, "both", 0)
    }
    assert all(head.startswith(b"GET /metrics HTTP/1.1\r\n") for head in heads)


def test_the_last_look_waits_for_an_engine_that_still_works(tmp_path):
    replies = (page(1), page(2, running=1), page(3, running=1), page(4))
    with ScriptedServer(*replies) as server:
        samples = watch(tmp_path, target(server.url))

    assert [(one.moment, one.values["prompt_tokens"]) for one in samples] == [
        ("start", 1),
        ("end", 4),
    ]


def test_an_engine_that_never_rests_is_not_waited_for_for_ever(tmp_path):
    with ScriptedServer(page(1, running=9)) as server:
        started = time.monotonic()
        samples = watch(tmp_path, target(server.url))
        took_s = time.monotonic() - started

    assert samples[-1].moment == "end"
    assert took_s < 30


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (plain(b"no such page", status=404), "it has no metrics page (HTTP 404)"),
        (plain(b"<html>{ </html>"), "its metrics page is not in the Prometheus format"),
        (plain(b"up 1.0\n"), "its metrics page is of no known engine"),
        (plain(b"x", delay_ms=60_000), "its metrics page cannot be had (nothing within 2 s)"),
    ],
)
def test_a_server_without_metrics_is_a_reason_and_is_not_asked_again(tmp_path, reply, reason):
    with ScriptedServer(reply) as server:
        samples = watch(tmp_path, target(server.url), seconds=1.3)

    (sample,) = samples
    assert (sample.moment, sample.flavour, sample.reason) == ("start", None, reason)
    assert sample.values == {}


def test_prefill_and_decode_instances_are_told_apart(tmp_path):
    with ScriptedServer(page(10)) as first, ScriptedServer(page(20)) as second:
        samples = watch(tmp_path, target(first.url, decode=(second.url,)))

    told = [(one.moment, one.role, one.instance, one.values["prompt_tokens"]) for one in samples]
    assert told == [
        ("start", "prefill", 0, 10),
        ("start", "decode", 0, 20),
        ("end", "prefill", 0, 10),
        ("end", "decode", 0, 20),
    ]


def test_a_run_that_is_interrupted_still_gets_its_last_look(tmp_path):
    with ScriptedServer(page(10)) as server:
        instances = instances_of(target(server.url), {})
        with (
            pytest.raises(KeyboardInterrupt),
            watching(tmp_path, instances, Condition("load", "load")),
        ):
            raise KeyboardInterrupt

    assert [one.moment for one in samples_in(tmp_path)] == ["start", "end"]


def test_keys_go_with_the_question_and_are_in_no_file(tmp_path):
    with ScriptedServer(page(10)) as server:
        watch(tmp_path, target(server.url), headers={"Authorization": "Bearer k3y"})
        head = server.served[0].head

    assert b"Authorization: Bearer k3y\r\n" in head + b"\r\n"
    assert "k3y" not in (tmp_path / "server.jsonl").read_text()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://h:8000", "/metrics"),
        ("http://h:8000/v1", "/metrics"),
        ("https://h/deployments/d/v1?key=1", "/deployments/d/metrics?key=1"),
        ("https://h/openai", "/openai/metrics"),
    ],
)
def test_metrics_lie_beside_the_api(url, path):
    assert metrics_path(parse_endpoint(url)[0]) == path
