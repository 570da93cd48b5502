"""Costs are differences to the bare client beside them; the documents say what was measured."""

import subprocess
import sys

import pytest

from benchmarks.comparison_page import comparison_text
from benchmarks.overhead_page import write_overhead_page
from benchmarks.sdk_costs import Cost, Hold, Overhead, Spread, cheapest
from benchmarks.table import UNKNOWN

MACHINE = {
    "processor": "CPU",
    "cores": "2",
    "memory": "24 GiB",
    "kernel": "6",
    "governor": "performance",
    "python": "3.11",
}


def costs(tool, each_us, *, once_us=0.0, rounds=3, how="sync"):
    """A machine that slows down from round to round."""
    return [
        Cost(
            tool,
            how,
            chunks,
            number,
            number * 10_000 + chunks * (150 + each_us) + once_us,
            number * 10_000 + chunks * 150,
        )
        for chunks in (100, 2000)
        for number in range(1, rounds + 1)
    ]


def overhead():
    one = Overhead("2026-01-02", "abc1234", MACHINE)
    one.baselines = {
        "bare": "bare",
        "phasemeter": "bare",
        "phasemeter, metrics": "bare",
        "other": "bare",
        "dear": "bare",
    }
    one.records_chunks = ["phasemeter, metrics", "other", "dear"]
    one.notes = {"other": "content off"}
    one.unavailable = {"gone": "could not be installed"}
    one.hot_path_us = 0.4
    for how in ("sync", "async"):
        one.costs += costs("bare", 0, how=how)
        one.costs += costs("phasemeter", 4, once_us=50, how=how)
        one.costs += costs("phasemeter, metrics", 30, how=how)
        one.costs += costs("other", 40, once_us=300, how=how)
        one.costs += costs("dear", 400, how=how)
    one.holds = [
        Hold("phasemeter", 2000, 0.7, 0.9, 0.8, 0.3),
        Hold("bare", 2000, 0.1, 0.2, 0.1, 0.1),
    ]
    return one


def test_the_machines_own_drift_is_not_in_the_added_cost():
    added = overhead().added_us("other", "sync", 100)

    assert (added.low, added.median, added.high) == pytest.approx((43, 43, 43))


def test_cost_a_chunk_and_a_stream_are_told_apart():
    each_us, once_us = overhead().fixed_us("other", "sync", 100, 2000)

    assert each_us == pytest.approx(40)
    assert once_us == pytest.approx(300)


def test_the_page_tells_what_is_above_the_floor():
    """In figures, where the floor was measured."""
    one = overhead()
    assert "The floor" not in comparison_text(None, one)

    one.baselines |= {"floor": "bare", "floor, spans": "bare"}
    for how in ("sync", "async"):
        one.costs += costs("floor", 1, how=how) + costs("floor, spans", 2.5, how=how)

    text = comparison_text(None, one)

    assert "sync 1.0 us without spans and 2.5 with them, phasemeter 4.5, 2.0 above" in text


def test_unknown_is_none():
    one = overhead()

    assert one.added_us("nobody", "sync", 100) is None
    assert one.fixed_us("nobody", "sync", 100, 2000) is None
    assert one.share_of_bare("nobody", "sync", 100) is None
    assert one.hold("other", 2000) is None
    assert Spread.of([]) is None


def test_the_cheapest_is_the_smallest_median():
    figures = {"a": Spread(3, 1, 9), "b": Spread(2, 2, 2), "c": None}

    assert cheapest("abc", figures) == "b"
    assert cheapest("c", figures) is None


def test_it_is_kept_as_it_was(tmp_path):
    overhead().save(tmp_path / "sdk_overhead.json")

    assert Overhead.load(tmp_path / "sdk_overhead.json") == overhead()


def test_the_document_says_which_budgets_are_met():
    text = comparison_text(None, overhead())

    # 4.5 us of the bare client's 350 in the middle round
    assert (
        "| spans and HDR on, 100 chunks, % of the bare client, sync | 1.29 | 5.00 | yes |" in text
    )
    assert "| the same in us a chunk, sync, as first planned | 4.50 | 5.00 | yes |" in text
    assert "sync, at most that of other | 30.00 | 43.00 | yes |" in text
    assert "| loop held at the end of 2,000 chunks, phasemeter, ms | 0.70 | 1.00 | yes |" in text
    assert (
        f"| loop held at the end of 2,000 chunks, phasemeter, metrics, ms | {UNKNOWN} | 1.00 | {UNKNOWN} |"
        in text
    )
    assert "gone is missing: could not be installed." in text
    assert "| dear | 400.0 (400.0 to 400.0) |" in text


def test_a_missed_budget_is_not_hidden():
    one = overhead()
    one.hot_path_us = 1.5

    assert "| hot path, us a chunk | 1.50 | 1.00 | **no** |" in comparison_text(None, one)


def test_the_page_holds_all_that_it_shows(tmp_path):
    write_overhead_page(overhead(), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()

    assert "phasemeter, metrics" in text
    assert "<script src" not in text


def test_the_process_of_a_tool_needs_no_more_than_the_tool_and_us():
    """A tool's environment has no extra of ours but the client libraries'."""
    script = "import sys; sys.modules['httptools'] = None; import benchmarks.sdk_worker"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
