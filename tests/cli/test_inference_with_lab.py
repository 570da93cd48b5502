"""Steps, chunks and queue times told from outside, against engines that know the truth."""

import json
import signal
from collections import Counter

import numpy as np
import pytest

from benchmarks.inference import bounds_of, compare_steps, inject, lab_truth
from phasemeter.analysis.chunks import TokenBudget
from phasemeter.analysis.engine_steps import steps_of
from phasemeter.analysis.queue_estimate import summarise_queues
from phasemeter.analysis.steps import StepSeries
from phasemeter.lab.config import EngineConfig
from phasemeter.lab.launch import start_engines
from tests.cli.test_with_lab import run, start, wait_for_records

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

LENGTHS = (150, 420, 700)


@pytest.mark.parametrize("budget", [64, 128, 256, 512])
def test_steps_chunks_and_budget_of_a_chunked_engine(tmp_path, budget):
    config = EngineConfig(
        policy="chunked", token_budget=budget, max_model_len=1024, exit_with_parent=True
    )
    with start_engines([config], timeout_s=120) as (engine,):
        records = inject(engine.url, tmp_path / "run", LENGTHS)
        steps, requests = lab_truth(engine.url)

    (told,) = steps_of(records)

    assert isinstance(told.series, StepSeries), told.series
    found = compare_steps(told, steps, requests)
    assert found.told == pytest.approx(found.true, rel=0.02)
    assert found.median_ms == pytest.approx(found.true_median_ms, rel=0.1)
    assert np.median(found.errors) < 0.1
    # The count of each length is exact; a loaded machine may stretch a step beside a single prompt.
    pairs = [pair for counted in found.chunks.values() for pair in counted]
    assert len(pairs) >= 5
    assert sum(counted == true for counted, true in pairs) >= 0.7 * len(pairs)
    for one in found.chunks.values():
        counted, true = (Counter(column).most_common(1)[0][0] for column in zip(*one, strict=True))
        assert counted == true
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
            bounds += bounds_of(folder)

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
