"""Two real vLLMs as replicas and as 1P1D: what the client measures and what the servers count agree."""

import json
import urllib.request
from pathlib import Path
from statistics import mean

import pytest

from phasemeter import metrics
from phasemeter.analysis.records import load_run
from phasemeter.analysis.server_metrics import server_figures
from phasemeter.core.timeline import Outcome
from phasemeter.load.preflight import find_target
from phasemeter.load.server_metrics import instances_of
from phasemeter.telemetry.sample import parse_sample
from phasemeter.telemetry.watch import Condition, watching
from tests.engines.command import documents, prompts_per_s, run
from tests.engines.vllm_server import MODEL

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def document(vllm_pair, tmp_path_factory):
    """The experiment on two replicas, then on the same two as prefill and decode instance.

    Run once more where other work on the machine has blurred the streams' own gaps.
    """
    first, second = (f"{one.url}/v1" for one in vllm_pair)

    def arguments():
        return (
            *("interference", "--mixed", first, "--mixed", second),
            *("--separated", f"prefill={first},decode={second}", "--conditions", "inject"),
            *("--repeats", 1, "--background-users", 4, "--inject-tokens", "1000,1500"),
            *("--inject-rate", prompts_per_s(first, 1250, 0.6), "--inject-time", "20s"),
        )

    found = {}
    folder = tmp_path_factory.mktemp("topologies") / "run"
    for found in documents(arguments, folder=folder, within_s=400):
        if found["verdict"]["kind"] == "interference":
            break
    return found


def figures(document, arm, role):
    return [one for one in document["server"] if (one["arm"], one["role"]) == (arm, role)]


def test_replicas_interfere_and_separated_instances_do_less(document, capsys):
    factors = document["factors"]
    mixed = factors["mixed.inject.background.gap_p99"]
    against = factors["separated_vs_mixed.inject.background.gap_p99"]["value"]

    assert document["verdict"]["kind"] == "interference", document["verdict"]
    assert mixed["value"] > 3
    assert against < 1
    # Of one repeat the p99's own interval may be wide; this is what the verdict rests on.
    longest = {
        arm: factors[f"{arm}.inject.background.longest_exposed_gap"]
        for arm in ("mixed", "separated")
    }
    assert longest["mixed"]["ci95"][0] > 3
    assert longest["separated"]["value"] < longest["mixed"]["ci95"][0]
    assert {one["arm"] for one in document["exposures"]} == {"mixed", "separated"}
    assert document["arms"]["mixed/inject"]["metrics"]["stall"]["count"] > 0
    requests = document["requests"]
    assert requests["ok"] + requests["cancelled"] == requests["issued"]
    with capsys.disabled():
        low, high = mixed["ci95"]
        print(
            f"\nvLLM, two replicas: gap p99 x {mixed['value']:.1f} [{low:.1f}, {high:.1f}] under "
            f"injection; 1P1D against them x {against:.2f}; longest gap beside a prompt "
            f"x {longest['mixed']['value']:.1f} and x {longest['separated']['value']:.1f}"
        )


def test_every_request_of_the_separated_pair_hands_its_cache_over(document):
    """The decode instance pulled the cache of each prompt whole, and none of it failed."""
    decode, prefill = (figures(document, "separated", role) for role in ("decode", "prefill"))
    assert len(decode) == len(prefill) > 0
    for at_decode, at_prefill in zip(decode, prefill, strict=True):
        assert at_decode["kv_transfers"] == at_decode["requests"] == at_prefill["requests"] > 0
        assert at_decode["kv_transfer_bytes"] > 0
        assert at_decode["kv_transfers_failed"] == 0
        assert at_decode["external_cache_hits_tokens"] == at_decode["prompt_tokens"]
        assert at_decode["prompt_tokens_computed"] == 0
        assert at_decode["prompt_tokens"] == at_prefill["prompt_tokens_computed"] > 0
        assert at_prefill["generation_tokens"] == at_prefill["requests"]
    for one in figures(document, "mixed", "both"):
        assert one["instances"] == 2
        assert one["kv_transfers"] == 0
        assert one["prompt_tokens"] == one["prompt_tokens_computed"]


def test_the_legs_add_up_and_contain_what_the_servers_took(document):
    timelines = [
        one
        for one in load_run(Path(document["run"])).timelines
        if one.outcome is Outcome.OK and one.tags["arm"] == "separated"
    ]
    legs = (metrics.PREFILL_LEG, metrics.HANDOFF, metrics.DECODE_LEG)
    for one in timelines:
        parts = [sum(leg.samples(one)) for leg in legs]
        assert min(parts) > 0
        assert sum(parts) == sum(metrics.TTFT.samples(one))
    for role, leg in (("prefill", metrics.PREFILL_LEG), ("decode", metrics.DECODE_LEG)):
        for told in figures(document, "separated", role):
            seen_ms = [
                sum(leg.samples(one)) / 1e6
                for one in timelines
                if one.tags["condition"] == told["condition"]
            ]
            # At the decode instance the queue's time holds the pull of the cache.
            server_ms = told["queue_time_mean_ms"] + told["prefill_time_mean_ms"]
            assert server_ms - 5 <= mean(seen_ms) <= server_ms + 1_500
    inject = document["arms"]["separated/inject"]["metrics"]
    assert inject["decode_leg"]["count"] == inject["prefill_leg"]["count"] > 0
    assert inject["second_gap"]["p50"] < inject["decode_leg"]["p50"]  # the pull is before the token


def test_no_prompt_of_the_experiment_was_in_a_prefix_cache(document):
    """Both topologies are the same two servers and meet the same plan: only the salt differs."""
    told = document["server"]

    assert all(one["prefix_cache_hits_tokens"] == 0 for one in told)
    assert all(one["prefix_cache_queries_tokens"] > 0 for one in told)
    assert not [one for one in document["validity"]["reasons"] if "prefix caches" in one]


def test_the_same_seed_run_twice_meets_an_empty_cache(vllm_pair, tmp_path):
    first, second = (f"{one.url}/v1" for one in vllm_pair)
    for number in range(2):
        status, out, err = run(
            *("load", "--separated", f"prefill={first},decode={second}", "--seed", 5),
            *("--users", 2, "--requests", 6, "--mix", "all=100%:400/8"),
            *("-o", tmp_path / f"run-{number}", "--json"),
        )
        assert status == 0, err
        told = json.loads(out)["server"]
        assert [one["prefix_cache_hits_tokens"] for one in told] == [0, 0]
        assert [one["requests"] for one in told] == [6, 6]
        assert [one["prompt_tokens"] for one in told] == [2_400, 2_400]


def test_a_prompt_that_is_sent_again_is_noticed(vllm_pair, tmp_path):
    """What the tests above say is not there is seen where it is."""
    url = f"{vllm_pair[0].url}/v1"
    target = find_target([url], topology="single", model=MODEL, api=None, headers={})
    body = target.style.body(400, 2, "the same salt")
    body |= {"stream": False, "stream_options": None}
    with watching(tmp_path, instances_of(target, {}), Condition("load", "load")):
        for _ in range(2):
            request = urllib.request.Request(
                f"{url}/completions",
                json.dumps(body).encode(),
                {"content-type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=60).read()

    lines = (tmp_path / "server.jsonl").read_text().splitlines()
    (told,) = server_figures([parse_sample(json.loads(line)) for line in lines])

    assert told["prompt_tokens"] == 800
    assert told["prefix_cache_queries_tokens"] == 800
    assert told["prefix_cache_hits_tokens"] == 384  # whole blocks of 128 tokens
