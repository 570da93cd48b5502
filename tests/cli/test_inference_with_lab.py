"""Steps, chunks and queue times told from outside, against engines that know the truth."""

import json
import signal
from collections import Counter

import numpy as np
import pytest

from phasemeter.analysis.calibration import calibration_of
from phasemeter.analysis.chunks import TokenBudget
from phasemeter.analysis.engine_steps import steps_of
from phasemeter.analysis.queue_estimate import queue_bounds, summarise_queues
from phasemeter.analysis.records import load_run
from phasemeter.analysis.steps import StepSeries
from phasemeter.lab.config import EngineConfig
from phasemeter.lab.launch import start_engines
from phasemeter.load import run_folder
from phasemeter.load.plan import Plan, TimedFlow, UserFlow
from phasemeter.load.preflight import find_target
from phasemeter.load.run import run_load
from phasemeter.load.workload import RequestClass
from tests.cli.test_with_lab import run, start, wait_for_records
from tests.lab.conftest import Http

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

LENGTHS = (150, 420, 700)


def inject(url, folder, *, streams=4, prompts=9, every_s=1.3):
    """Stream all the time and send prompts of three lengths in turn, far apart."""
    target = find_target([url], topology="single", model=None, api=None, headers={})
    end_s = 2 + prompts * every_s
    streaming = UserFlow("streams", (RequestClass("streams", 8, 900),), streams, 0.0, end_s)
    at = tuple(
        (2 + k * every_s + 0.05 * (k % 5), RequestClass("injected", LENGTHS[k % 3], 1))
        for k in range(prompts)
    )
    plan = Plan((streaming, TimedFlow("injected", at)), end_s, 0.0, 1)
    run_load(
        run_folder.create(folder, "load"),
        plan,
        target,
        workers=1,
        timeout_s=120,
        headers={},
        on_progress=lambda elapsed_s, sums: None,
    )
    return load_run(folder)


@pytest.mark.parametrize("budget", [64, 128, 256, 512])
def test_steps_chunks_and_budget_of_a_chunked_engine(tmp_path, budget):
    config = EngineConfig(
        policy="chunked", token_budget=budget, max_model_len=1024, exit_with_parent=True
    )
    with start_engines([config], timeout_s=120) as (engine,):
        records = inject(engine.url, tmp_path / "run")
        steps = Http()(engine, "GET", "/steps").lines
        truth = {one["request_id"]: one for one in Http()(engine, "GET", "/truth").lines}

    (told,) = steps_of(records)

    assert isinstance(told.series, StepSeries), told.series
    # Each step that is told is one that was, and its duration is the time between two steps' ends.
    ends_ns = np.array([step["end_ns"] for step in steps])
    known = np.flatnonzero(told.series.durations_ns > 0)
    which = np.searchsorted(ends_ns, told.series.ends_ns) - 1
    seen = ends_ns[(ends_ns >= ends_ns[which[0]]) & (ends_ns <= ends_ns[which[-1]])]
    assert told.series.ends_ns.size == pytest.approx(seen.size, rel=0.02)
    true_ns = np.diff(ends_ns, prepend=ends_ns[0])[which[known]]
    durations_ns = told.series.durations_ns[known]
    assert np.median(durations_ns) == pytest.approx(np.median(true_ns), rel=0.1)
    errors = np.abs(durations_ns - true_ns) / np.maximum(true_ns, 1)
    assert np.median(errors) < 0.1
    # The count of each length is exact; a loaded machine may stretch a step beside a single prompt.
    assert len(told.counts) >= 5
    exact = [count.chunks == len(truth[count.request_id]["prefill_steps"]) for count in told.counts]
    assert sum(exact) >= 0.7 * len(exact)
    for tokens in {count.prompt_tokens for count in told.counts}:
        counted = Counter(c.chunks for c in told.counts if c.prompt_tokens == tokens)
        true = Counter(
            len(truth[c.request_id]["prefill_steps"])
            for c in told.counts
            if c.prompt_tokens == tokens
        )
        assert counted.most_common(1)[0][0] == true.most_common(1)[0][0]
    assert isinstance(told.budget, TokenBudget), told.budget
    assert told.budget.at_least <= budget
    assert told.budget.at_most is None or budget <= told.budget.at_most


@pytest.mark.parametrize(("policy", "budget"), [("chunked", 256), ("mixed", 256)])
def test_queue_bounds_hold_what_the_engine_says(tmp_path, policy, budget):
    config = EngineConfig(
        policy=policy,
        token_budget=budget,
        max_num_seqs=4,
        max_model_len=1024,
        exit_with_parent=True,
    )
    with start_engines([config], timeout_s=120) as (engine,):
        status, out, err = run(
            *("calibrate", engine.url, "-o", tmp_path / "idle", "--json"),
            *("--prompt-tokens", "32,64,128,256,400,600", "--streams", "1,2,4"),
        )
        assert status == 0, err
        calibration = json.loads(out)["calibration"]
        assert [one["requests"] for one in calibration["prompts"]] == [5] * 6
        assert [one["streams"] for one in calibration["decode"]] == [1, 2, 4]
        assert calibration["round_trip_ms"] > 0
        assert calibration["connect_ms"] > 0
        bounds = []
        for users in (3, 10):
            folder = tmp_path / f"users-{users}"
            status, out, err = run(
                *("load", engine.url, "-o", folder, "--users", users, "--duration", "12s"),
                *("--mix", "short=70%:60/40,long=30%:400/20", "--json"),
                *("--calibrated-by", tmp_path / "idle"),
            )
            assert status in (0, 3), err
            assert json.loads(out)["queue_estimate"]["label"] == "inferred"
            records = load_run(folder)
            bounds += queue_bounds(steps_of(records), calibration_of(records.manifest))

    summary = summarise_queues(bounds)
    assert summary["server_told"] == len(bounds) > 10
    assert summary["server_within"] >= 0.9 * summary["server_told"]
    # [0, ttft] would hold everything: the bounds say much more where there is a queue.
    queued = [one for one in bounds if one.told_ns > 0.5 * one.ttft_ns]
    assert len(queued) > 5
    widths = [(one.upper_ns - one.lower_ns) / one.ttft_ns for one in queued]
    assert np.median(widths) < 0.6
    assert np.median([one.lower_ns / one.told_ns for one in queued]) > 0.3


def test_an_interrupted_calibration_reports(tmp_path):
    with start_engines([EngineConfig(exit_with_parent=True)], timeout_s=120) as (engine,):
        process = start("calibrate", engine.url, "-o", tmp_path / "run", "--repeats", 50)
        wait_for_records(tmp_path / "run", 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert err.strip().splitlines()[-1] == "phasemeter: interrupted"
    assert str(tmp_path / "run") in out
    status, out, err = run("report", tmp_path / "run", "--json")
    assert status in (0, 3), err
    assert json.loads(out)["requests"]["ok"] >= 3
