"""What is worked out of the servers' samples, by hand; and what it says about a run."""

import json
from dataclasses import replace

import pytest
from run_factory import make_timeline, write_run

from phasemeter.analysis.records import load_run
from phasemeter.analysis.server_metrics import server_figures
from phasemeter.analysis.summary import summarise
from phasemeter.telemetry.sample import ServerSample


def sample(moment, values, *, role="both", instance=0, repeat=1, arm="mixed", **fields):
    fields = {"t_ns": 1, "condition": "inject", "flavour": "vllm"} | fields
    return ServerSample(
        arm=arm, repeat=repeat, moment=moment, role=role, instance=instance, values=values, **fields
    )


def figures(*samples):
    (found,) = server_figures(samples)
    return found


def test_counters_are_differences_over_instances_and_repeats():
    """Instance 0 gains 100 and 50 tokens, instance 1 gains 7; counters were not 0 before."""
    found = figures(
        sample("start", {"prompt_tokens": 1_000.0}),
        sample("start", {"prompt_tokens": 10.0}, instance=1),
        sample("end", {"prompt_tokens": 1_100.0}),
        sample("end", {"prompt_tokens": 17.0}, instance=1),
        sample("start", {"prompt_tokens": 1_500.0}, repeat=2),
        sample("end", {"prompt_tokens": 1_550.0}, repeat=2),
    )

    assert found["prompt_tokens"] == 157
    assert found["instances"] == 2
    assert found["prefix_cache_hits_tokens"] is None  # nobody told


def test_times_are_means_over_the_requests_of_the_stretch():
    """2 s more of queue over 4 more requests: 500 ms; no prefill was counted."""
    told = {"queue_time_s": 3.0, "queue_time_count": 6.0, "prefill_time_s": 1.0}
    found = figures(
        sample("start", {**told, "prefill_time_count": 2.0}),
        sample(
            "end",
            {**told, "queue_time_s": 5.0, "queue_time_count": 10.0, "prefill_time_count": 2.0},
        ),
    )

    assert found["queue_time_mean_ms"] == 500.0
    assert found["prefill_time_mean_ms"] is None


def test_gauges_are_the_most_that_one_instance_had_at_a_time():
    found = figures(
        sample("start", {"running_requests": 0.0, "waiting_requests": 0.0}),
        sample("during", {"running_requests": 5.0, "waiting_requests": 2.0}),
        sample("during", {"running_requests": 6.0, "waiting_requests": 0.0}, instance=1),
        sample("end", {"running_requests": 1.0, "waiting_requests": 0.0}),
    )

    assert (found["running_requests_max"], found["waiting_requests_max"]) == (6, 2)


def test_a_counter_that_appears_during_the_run_has_counted_from_nothing():
    found = figures(sample("start", {}), sample("end", {"prefix_cache_hits_tokens": 32.0}))

    assert found["prefix_cache_hits_tokens"] == 32


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (
            [sample("start", {"prompt_tokens": 5.0}), sample("end", {"prompt_tokens": 2.0})],
            "restarted",
        ),
        ([sample("start", {"prompt_tokens": 5.0})], "cut off"),
        ([sample("start", {}, flavour=None, reason="it has none")], "it has none"),
        (
            [
                sample("start", {"prompt_tokens": 5.0}),
                sample("end", {}, flavour=None, reason="its page cannot be had"),
            ],
            "cannot be had",
        ),
    ],
)
def test_what_cannot_be_told_is_unknown_with_a_reason(samples, reason):
    found = figures(*samples)

    assert found["prompt_tokens"] is None
    assert any(reason in one for one in found["reasons"])


def test_roles_conditions_and_users_are_kept_apart():
    made = [
        sample("start", {}, arm="separated", role="prefill"),
        sample("start", {}, arm="separated", role="decode"),
        sample("start", {}, condition="ramp", users=1),
        sample("start", {}, condition="ramp", users=2),
    ]

    keys = [(f["arm"], f["condition"], f["users"], f["role"]) for f in server_figures(made)]

    assert keys == [
        ("separated", "inject", None, "prefill"),
        ("separated", "inject", None, "decode"),
        ("mixed", "ramp", 1, "both"),
        ("mixed", "ramp", 2, "both"),
    ]


# What it says about a run


def validity_of(tmp_path, *samples):
    path = write_run(
        tmp_path, [make_timeline(f"r{k}", first_ms=10, gaps_ms=(5,)) for k in range(3)]
    )
    lines = (json.dumps(one.to_json()) for one in samples)
    (path / "server.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return summarise(load_run(path))


def stretch(role="both", **gained):
    return sample("start", dict.fromkeys(gained, 0.0), role=role), sample("end", gained, role=role)


@pytest.mark.parametrize(
    ("hits", "verdict"), [(0, "valid"), (4, "valid"), (6, "suspect"), (101, "invalid")]
)
def test_prefix_cache_hits_are_a_reason_with_their_count(tmp_path, hits, verdict):
    samples = stretch(prefix_cache_hits_tokens=float(hits), prefix_cache_queries_tokens=1_000.0)

    summary = validity_of(tmp_path, *samples)

    assert summary["server"][0]["prefix_cache_hits_tokens"] == hits
    against = [one for one in summary["validity"]["reasons"] if "prefix caches" in one]
    assert bool(against) == (verdict != "valid")
    assert summary["validity"]["verdict"] == verdict
    assert all(f"{hits} of 1,000 prompt tokens" in one for one in against)


def test_failed_transfers_and_prefill_on_a_decode_instance_are_reasons(tmp_path):
    """Of 1,000 prompt tokens the decode instance worked out 40, then 60, itself."""
    decode = {"role": "decode", "prompt_tokens": 1_000.0, "kv_transfers_failed": 2.0}

    mild = validity_of(tmp_path / "a", *stretch(**decode, prompt_tokens_computed=40.0))
    much = validity_of(tmp_path / "b", *stretch(**decode, prompt_tokens_computed=60.0))

    assert "2 transfers of KV caches between instances failed" in mild["validity"]["reasons"]
    assert any("40 of 1,000 prompt tokens themselves" in one for one in mild["validity"]["reasons"])
    assert (mild["validity"]["verdict"], much["validity"]["verdict"]) == ("suspect", "invalid")


def test_a_prefill_instance_works_prompts_out(tmp_path):
    samples = stretch(role="prefill", prompt_tokens=1_000.0, prompt_tokens_computed=1_000.0)

    assert validity_of(tmp_path, *samples)["validity"]["verdict"] == "valid"


def test_a_run_from_before_there_were_samples_says_nothing(tmp_path):
    path = write_run(tmp_path, [make_timeline(first_ms=10)])

    assert summarise(load_run(path))["server"] == []


def test_a_broken_line_is_counted(tmp_path):
    path = write_run(tmp_path, [make_timeline(first_ms=10)])
    good = json.dumps(sample("start", {}).to_json())
    (path / "server.jsonl").write_text(f'{good}\n{{"arm": 1}}\n{good[:20]}')

    run = load_run(path)

    assert len(run.server) == 1
    assert run.unreadable_lines == 1
    assert replace(run, server=()).server == ()
