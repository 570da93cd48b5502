"""Steps, chunks, token budget and queue of a real vLLM, told from outside and compared with its own word."""

import json
from collections import Counter

import numpy as np
import pytest

from benchmarks.inference import bounds_of, inject, queue_line
from phasemeter.analysis.chunks import TokenBudget
from phasemeter.analysis.engine_steps import steps_of
from phasemeter.analysis.queue_estimate import summarise_queues
from phasemeter.analysis.steps import StepSeries
from tests.engines.environments import VLLM
from tests.engines.test_vllm_load import run
from tests.engines.vllm_server import running_vllm

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

STREAMS, SLOTS = 3, 4
LENGTHS = (300, 900, 1700)


@pytest.fixture(scope="module", params=[256, 512])
def limited(request, tmp_path_factory):
    """A vLLM with a token budget and few slots."""
    reason = VLLM.missing()
    if reason is not None:
        pytest.skip(reason)
    options = ("--max-num-batched-tokens", str(request.param), "--max-num-seqs", str(SLOTS))
    with running_vllm(VLLM, tmp_path_factory.mktemp("vllm"), options) as server:
        yield server, request.param


def test_steps_chunks_and_budget(limited, tmp_path, capsys):
    server, budget = limited
    before = server.counters()
    records = inject(
        f"{server.url}/v1",
        tmp_path / "run",
        LENGTHS,
        streams=STREAMS,
        stream_tokens=3000,
        prompts=15,
        every_s=1.2,
    )
    after = server.counters()

    (told,) = steps_of(records)

    assert isinstance(told.series, StepSeries), told.series
    series = told.series
    gained = {name: after[name] - before.get(name, 0) for name in after}
    # Every step that computed something counts once, a few of them for the preflight's questions. Steps
    # whose tokens came in one read with the next ones cannot be told apart.
    hidden = max(timeline.coalesced_events for timeline in records.timelines)
    counted = gained["iteration_tokens_total_count"]
    assert series.ends_ns.size <= counted
    assert series.ends_ns.size + hidden == pytest.approx(counted, rel=0.03)
    known = series.durations_ns > 0
    weights = series.decodes[known]
    # Of the steps that are timed: the server's mean is over all of them.
    mean_ms = float((series.durations_ns[known] * weights).sum() / weights.sum()) / 1e6
    itl = "inter_token_latency_seconds"
    true_ms = gained[f"{itl}_sum"] / gained[f"{itl}_count"] * 1e3
    assert mean_ms == pytest.approx(true_ms, rel=0.1)
    expected = {tokens: -(-tokens // (budget - STREAMS)) for tokens in LENGTHS}
    exact = [count.chunks == expected[count.prompt_tokens] for count in told.counts]
    assert len(exact) >= 8
    assert sum(exact) >= 0.7 * len(exact)
    for tokens in LENGTHS:
        counted = Counter(c.chunks for c in told.counts if c.prompt_tokens == tokens)
        assert counted.most_common(1)[0][0] == expected[tokens]
    assert isinstance(told.budget, TokenBudget), told.budget
    assert told.budget.at_least <= budget <= (told.budget.at_most or budget)
    with capsys.disabled():
        print(
            f"\nvLLM, budget {budget}: {series.ends_ns.size} steps told, "
            f"{gained['iteration_tokens_total_count']:.0f} counted; mean {mean_ms:.2f} ms, its own "
            f"{true_ms:.2f}; chunks exact {sum(exact)} of {len(exact)}; token budget "
            f"{told.budget.at_least} to {told.budget.at_most}"
        )


def test_queue_bounds_hold_what_it_says(limited, tmp_path, capsys):
    server, budget = limited
    status, out, err = run(
        *("calibrate", f"{server.url}/v1", "-o", tmp_path / "idle", "--json"),
        *("--prompt-tokens", "64,128,256,512,1024,2048"),
    )
    assert status == 0, err
    calibration = json.loads(out)["calibration"]
    assert [one["requests"] for one in calibration["prompts"]] == [5] * 6
    for users in (SLOTS - 1, 10):
        folder = tmp_path / f"users-{users}"
        status, out, err = run(
            *("load", f"{server.url}/v1", "-o", folder, "--users", users, "--duration", "20s"),
            *("--mix", "short=70%:100/60,long=30%:1200/40", "--json"),
            *("--calibrated-by", tmp_path / "idle"),
        )
        assert status == 0, err
        bounds = bounds_of(folder)
        summary = summarise_queues(bounds)
        assert summary == json.loads(out)["queue_estimate"]
        assert summary["server_told"] == len(bounds) > 20
        assert summary["server_within"] >= 0.9 * summary["server_told"]
        width = float(np.median([(b.upper_ns - b.lower_ns) / b.ttft_ns for b in bounds]))
        if users > SLOTS:
            # [0, ttft] would hold everything; here the queue is most of it and is told closely.
            assert np.median([b.told_ns / b.ttft_ns for b in bounds]) > 0.5
            assert width < 0.5
        with capsys.disabled():
            print(f"\nvLLM, budget {budget}, {users} users: {queue_line(bounds)}")
