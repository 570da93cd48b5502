"""The command line on a real vLLM: runs end, are judged, and count what the server counted."""

import json

import pytest

from phasemeter.analysis.records import load_run
from tests.engines.command import documents, prompts_per_s, run
from tests.engines.vllm_server import MODEL

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1000)]


def counted(server, before):
    after = server.counters()
    return {name: round(after[name] - before.get(name, 0)) for name in after}


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_load_run_counts_what_the_server_counted(vllm, tmp_path, api, capsys):
    folder = tmp_path / "run"
    before = vllm.counters()

    status, out, err = run(
        *("load", f"{vllm.url}/v1", "--api", api, "--users", 4, "--duration", "12s"),
        *("--mix", "short=75%:64/32,long=25%:800/24", "-o", folder, "--json"),
    )

    assert status == 0, err
    document = json.loads(out)
    assert document["validity"]["verdict"] in ("valid", "suspect"), document["validity"]
    requests = document["requests"]
    assert requests["ok"] == requests["issued"] > 10
    timelines = load_run(folder).timelines
    assert {timeline.dialect for timeline in timelines} == {f"openai.{api}"}
    output = [timeline.usage.output_tokens for timeline in timelines]
    assert set(output) == {32, 24}  # ignore_eos and min_tokens are obeyed
    assert all(timeline.response_model == MODEL for timeline in timelines)
    if api == "completions":  # prompts of token ids are exact
        assert {timeline.usage.input_tokens for timeline in timelines} == {64, 800}
    gained = counted(vllm, before)
    # What is not in the records are the preflight's questions, each for one token.
    questions = gained["request_success_total"] - requests["issued"]
    assert 1 <= questions <= 8
    assert gained["generation_tokens_total"] == sum(output) + questions
    # The salted prompts met nothing in the prefix cache, and the run says nothing else.
    assert gained["prefix_cache_queries_total"] > 0
    assert gained["prefix_cache_hits_total"] == 0
    assert sum(timeline.usage.cached_input_tokens for timeline in timelines) == 0
    assert "prefix_cache_hits" not in {one["kind"] for one in document["detections"]}
    # Each response ends with the server's own times, which the client's contain.
    for timeline in timelines:
        told_ms = timeline.server["queue_time_ms"] + timeline.server["time_to_first_token_ms"]
        assert timeline.prefill_s * 1e3 >= told_ms
    with capsys.disabled():
        ttft, gap = (document["metrics"][name] for name in ("ttft", "gap"))
        print(
            f"\nvLLM, {api}, 4 users: {document['validity']['verdict']}, "
            f"ttft p50 {ttft['p50']:.0f} ms, gap p50 {gap['p50']:.1f} and p99 {gap['p99']:.0f} ms"
        )


def test_a_load_run_reports_again_from_its_folder(vllm, tmp_path):
    folder = tmp_path / "run"
    status, out, err = run(
        *("load", f"{vllm.url}/v1", "--rate", 2, "--requests", 8, "--mix", "all=100%:64/16"),
        *("-o", folder, "--json"),
    )
    assert status == 0, err

    status, again, err = run("report", folder, "--json", "--hgrm", tmp_path / "hgrm")

    assert status == 0, err
    assert json.loads(again)["metrics"] == json.loads(out)["metrics"]
    assert json.loads(again)["requests"]["ok"] == 8
    assert list((tmp_path / "hgrm").iterdir())


def test_the_interference_experiment_runs_to_its_verdict(vllm, tmp_path, capsys):
    """Run once more where other work on the machine has blurred the streams' own gaps."""
    before = vllm.counters()

    def arguments():
        rate = prompts_per_s(f"{vllm.url}/v1", 1250, 0.5)
        return (
            *("interference", "--mixed", f"{vllm.url}/v1", "--repeats", 1),
            *("--background-users", 4, "--inject-tokens", "1000,1500", "--inject-rate", rate),
            *("--inject-time", "20s", "--mix-time", "8s"),
            *("--mix", "short=70%:64/32,long=30%:1500/24", "--rate", 1),
        )

    for document in documents(arguments, folder=tmp_path / "run", within_s=400):
        main = document["factors"]["mixed.inject.background.gap_p99"]
        if document["verdict"]["kind"] == "interference" and (main["value"] or 0) > 5:
            break

    requests = document["requests"]
    assert requests["ok"] + requests["cancelled"] == requests["issued"]
    assert document["verdict"]["kind"] == "interference", document["verdict"]
    assert main["value"] > 5
    low, high = main["ci95"]
    assert low <= main["value"] <= high
    # Of one repeat the p99's own interval may be wide; this is what the verdict rests on.
    longest = document["factors"]["mixed.inject.background.longest_exposed_gap"]
    assert longest["ci95"][0] > 3
    assert document["exposures"]
    assert document["arms"]["mixed/inject"]["metrics"]["stall"]["count"] > 0
    (effect,) = document["effects"]
    assert effect["exposed_share"] > 0
    assert effect["overlapped"] >= 5
    assert effect["lost_ms_per_prompt_token"]["value"] > 0
    (note,) = (one for one in document["notes"] if "injections overlapped" in one)
    gained = counted(vllm, before)
    assert gained["prefix_cache_queries_total"] > 0
    assert gained["prefix_cache_hits_total"] == 0
    assert all(one["prefix_cache_hits_tokens"] == 0 for one in document["server"])
    told = {one["condition"]: one for one in document["server"]}
    assert told["inject"]["prompt_tokens"] > 0
    status, again, err = run("report", document["run"], "--json")
    assert status == 0, err
    assert json.loads(again)["requests"] == requests
    with capsys.disabled():
        print(
            f"\nvLLM, prompts injected beside 4 streams: gap p99 x {main['value']:.1f} "
            f"[{low:.1f}, {high:.1f}]; {note}"
        )
