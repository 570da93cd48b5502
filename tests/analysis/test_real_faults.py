"""Faults made to happen between real processes: each detector sees its own, and a plain run shows none.

A truth server in a process of its own, the load driver's worker in another; times are the truth server's.
"""

import json
import os
import signal
import sys
import time

import pytest
from buffering_proxy import relaying

from phasemeter.analysis.records import load_run
from phasemeter.analysis.summary import summarise
from phasemeter.load.plan import ArrivalFlow, Plan, UserFlow
from phasemeter.load.run import run_load
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.load.workload import RequestClass
from phasemeter.testing.truth.launch import running_truth_server

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the truth server needs Linux"),
    pytest.mark.timeout(120),
]
PLAIN = "ttft_ms=100,gap_ms=20"


def users(number=4, requests=12, *, prompt=8, output=24):
    mix = (RequestClass("one", prompt, output),)
    return UserFlow("users", mix, number, 0.0, 60.0, max_requests=requests)


def arrivals(rate_per_s, for_s=2.0, *, output=4):
    mix = (RequestClass("one", 8, output),)
    return ArrivalFlow("arrivals", mix, rate_per_s, "constant", 0.0, for_s)


class Loading:
    """Drives flows at a truth server and gives the summary of the run."""

    def __init__(self, folder):
        self.folder = folder

    def run(
        self, url, flow, *, headers=None, on_progress=lambda elapsed_s, totals: None, about=None
    ):
        folder = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        style = RequestStyle("completions", "truth", prompt_ids=True)
        run_load(
            folder,
            Plan((flow,), flow.stop_s, 20.0, seed=1),
            Target("single", (parse_endpoint(url)[0],), style),
            workers=1,
            timeout_s=30,
            headers=headers or {},
            on_progress=on_progress,
            about=about,
        )
        return load_run(folder)

    def against(self, pacing, flow, **options):
        with running_truth_server(self.folder / "truth.jsonl", pacing) as url:
            return self.run(url, flow, **options)


@pytest.fixture
def loading(tmp_path):
    return Loading(tmp_path)


def kinds(run):
    return {one["kind"] for one in summarise(run)["detections"]}


def text_of(run, kind):
    return next(one["text"] for one in summarise(run)["detections"] if one["kind"] == kind)


def test_a_plain_run_shows_nothing(loading):
    run = loading.against(PLAIN, users())

    assert kinds(run) == set()


def test_a_buffering_proxy_is_noticed_and_one_that_passes_on_at_once_is_not(loading):
    """Held for 200 ms, ten events of 20 ms come in one piece."""
    with running_truth_server(loading.folder / "truth.jsonl", PLAIN) as url:
        with relaying(url, hold_s=0.2) as proxy:
            held = loading.run(proxy, users())
        with relaying(url, hold_s=0) as proxy:
            passed = loading.run(proxy, users())

    assert "buffered_stream" in kinds(held)
    assert "12 of 12 streams came in clumps" in text_of(held, "buffered_stream")
    sizes = summarise(held)["health"]["events_per_read"]
    assert max(map(int, sizes)) >= 5
    assert "buffered_stream" not in kinds(passed)
    slower = summarise(held)["metrics"]["ttft"]["p50"] - summarise(passed)["metrics"]["ttft"]["p50"]
    assert slower > 40


def test_a_server_that_sends_in_clumps_is_noticed(loading):
    assert "buffered_stream" in kinds(loading.against(f"{PLAIN},clump_events=6", users()))


def test_events_of_several_tokens_are_noticed(loading):
    run = loading.against(f"{PLAIN},tokens_per_event=4", users())

    assert kinds(run) == {"multi_token_events"}
    assert "(4.0 on average)" in text_of(run, "multi_token_events")


class StopsTheWorker:
    """Stops the worker process for half a second, once, when the load is under way."""

    def __init__(self, folder):
        self.folder = folder
        self.done = False

    def __call__(self, elapsed_s, totals):
        if self.done or totals.issued < 10:
            return
        self.done = True
        (records,) = self.folder.glob("run-*/records-0.jsonl")
        pid = json.loads(records.read_text().splitlines()[0])["pid"]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(pid, signal.SIGCONT)


def test_a_stopped_client_is_noticed_with_the_arrivals_that_it_missed(loading):
    """Half a second of 100 arrivals a second: some fifty leave late."""
    stop = StopsTheWorker(loading.folder)
    stopped = loading.against("ttft_ms=20,gap_ms=5", arrivals(100), on_progress=stop)

    assert {"client_stalls", "arrival_slots_missed"} <= kinds(stopped)
    lags = summarise(stopped)["health"]["lags"]
    assert max(lags["wake_lag"]["max"], lags["loop_lag"]["max"]) > 400
    assert lags["send_lag"]["max"] > 300
    assert "0 never left" in text_of(stopped, "arrival_slots_missed")


def test_arrivals_that_leave_on_time_are_not_reported(loading):
    """20 a second leave room for the hiccups of a busy machine."""
    found = kinds(loading.against("ttft_ms=20,gap_ms=5", arrivals(20)))

    assert not found & {"client_stalls", "arrival_slots_missed", "rate_not_achieved"}


def test_a_server_that_cannot_keep_up_is_noticed(loading):
    """Two slots of 100 ms answer 20 a second; 60 arrive."""
    run = loading.against("ttft_ms=70,gap_ms=10,slots=2", arrivals(60))

    assert "rate_not_achieved" in kinds(run)
    assert "arrived and" in text_of(run, "rate_not_achieved")


def test_known_beginnings_of_prompts_are_noticed_where_the_server_tells_them(loading, monkeypatch):
    """The same prompts again: the second run finds all whole blocks in the cache."""
    pacing = "ttft_ms=20,gap_ms=5,prompt_token_ms=0.5,prefix_cache=1,tells_cached=1"
    first, second = twice_the_same_prompts(loading, pacing, monkeypatch)

    assert "prefix_cache_hits" not in kinds(first)
    assert "prefix_cache_hits" in kinds(second)
    assert "96% of the prompt tokens" in text_of(second, "prefix_cache_hits")


def test_first_tokens_far_under_the_calibrated_curve_are_noticed(loading, monkeypatch):
    """A server that says nothing of its cache: prompts of 200 tokens take 100 ms more when new."""
    curve = {"ttft_curve": {"base_ms": 20.0, "per_token_ms": 0.5}}
    pacing = "ttft_ms=20,gap_ms=5,prompt_token_ms=0.5,prefix_cache=1"
    first, second = twice_the_same_prompts(loading, pacing, monkeypatch, about=curve)

    assert "prefix_cache_hits" not in kinds(first)
    assert "of the time that new prompts of their length took" in text_of(
        second, "prefix_cache_hits"
    )


def twice_the_same_prompts(loading, pacing, monkeypatch, about=None):
    class Fixed:
        hex = "0" * 32

    monkeypatch.setattr("phasemeter.load.launch.uuid.uuid4", Fixed)
    with running_truth_server(loading.folder / "truth.jsonl", pacing) as url:
        flow = users(requests=8, prompt=200, output=8)
        return [loading.run(url, flow, about=about) for _ in range(2)]


def test_connecting_is_noticed_where_it_is_a_part_of_ttft_and_not_where_it_is_little(loading):
    """Every request opens a connection; the first token comes at once, or after 200 ms."""
    closing = {"Connection": "close"}
    at_once = loading.against("ttft_ms=0,gap_ms=5", users(1, 20), headers=closing)
    later = loading.against("ttft_ms=200,gap_ms=5", users(output=4), headers=closing)
    kept = loading.against("ttft_ms=0,gap_ms=5", users(1, 20))

    assert "20 of 20 requests opened a connection" in text_of(at_once, "connecting_within_ttft")
    assert "connecting_within_ttft" not in kinds(later) | kinds(kept)
