"""Lags are counted without loss, a little at a time, and what the machine did is read where it is told."""

import random
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.load.health import Health, Lags
from phasemeter.load.process_use import ProcessUse
from phasemeter.sinks.histogram import decoded

MS = 1_000_000


def lags_of(times_ns):
    lags = Lags()
    for t_ns in times_ns:
        lags.add(t_ns)
    return lags


@given(st.lists(st.integers(0, 3_600_000_000_000), min_size=1, max_size=300))
def test_percentiles_are_those_of_the_sorted_times_to_a_thousandth(times_ns):
    ordered = sorted(times_ns)
    last = len(ordered) - 1
    p50, p99, longest = lags_of(times_ns).percentiles_ns()

    for said, true in ((p50, ordered[last // 2]), (p99, ordered[round(last * 0.99)])):
        assert said <= true
        assert said >= true * 0.999
    assert longest == ordered[-1]


def test_counting_some_at_a_time_loses_nothing():
    times_ns = [random.Random(1).randrange(100 * MS) for _ in range(5_000)]
    lags = lags_of(times_ns)
    for _ in range(3):
        lags.fold_some()

    assert lags.percentiles_ns() == lags_of(times_ns).percentiles_ns()
    assert decoded(lags.encoded()).get_total_count() == 5_000


def test_a_backlog_is_counted_off_faster_than_a_short_one():
    """What comes in at any rate does not pile up without end."""
    lags = lags_of([MS] * 100_000)
    lags.fold_some()

    assert len(lags._fresh) <= 100_000 * 15 // 16 + 1


def test_the_histogram_is_one_that_any_hdr_tool_reads():
    histogram = decoded(lags_of([1 * MS, 2 * MS, 40 * MS]).encoded())

    assert histogram.get_total_count() == 3
    assert histogram.get_max_value() == pytest.approx(40_000, rel=1e-3)


def test_without_times_nothing_is_known():
    assert Lags().percentiles_ns() is None
    assert Health().to_json()["read_lag_ns"] is None
    assert decoded(Health().to_json()["histograms"]["read_lag"]).get_total_count() == 0


@pytest.mark.parametrize(
    "text", ["", "HISTFAAAAB", "no base64 \N{GREEK SMALL LETTER PI}", "AAAA" * 20]
)
def test_a_text_that_is_no_histogram_is_none(text):
    assert decoded(text) is None


def test_a_process_tells_what_it_used():
    """A process that works for 200 ms of CPU time has used at least that."""
    use = ProcessUse()
    begun_s = time.process_time()
    while time.process_time() - begun_s < 0.2:
        pass
    told = use.to_json()

    assert told["cpu_s"] >= 0.19
    assert told["wall_s"] >= 0.19
    if sys.platform == "linux":
        assert told["machine_busy_cores"] is None or told["machine_busy_cores"] > 0
        assert told["cpu_wait_s"] is None or told["cpu_wait_s"] >= 0


def test_what_a_system_does_not_tell_is_unknown(tmp_path, monkeypatch):
    for name in ("_SCHEDSTAT", "_STAT"):
        monkeypatch.setattr(f"phasemeter.load.process_use.{name}", tmp_path / "absent")
    told = ProcessUse().to_json()

    assert (told["cpu_wait_s"], told["machine_busy_cores"], told["steal_share"]) == (None,) * 3
    assert told["cpu_s"] is not None


def test_busy_cores_and_stolen_time_come_from_the_difference_of_two_readings(tmp_path, monkeypatch):
    """Of 400 ticks on all cores 200 were at work and 40 stolen."""
    stat = tmp_path / "stat"
    monkeypatch.setattr("phasemeter.load.process_use._STAT", stat)
    monkeypatch.setattr("phasemeter.load.process_use.os.cpu_count", lambda: 4)
    stat.write_text("cpu  100 0 0 1000 0 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    use = ProcessUse()
    stat.write_text("cpu  250 20 20 1150 10 5 5 40 0 0\n")
    told = use.to_json()

    assert told["machine_busy_cores"] == 2.0
    assert told["steal_share"] == 0.1
