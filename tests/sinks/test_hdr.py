"""HDR histograms: what is recorded, clamped, merged, summarised, and written as an interval log."""

import threading
from collections import Counter
from dataclasses import replace

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.core.token_events import TokenEvent
from phasemeter.sinks.hdr import OTHER, HdrSink
from phasemeter.sinks.histogram import (
    add,
    count_us,
    new_histogram,
    record_counts,
    record_ns,
    summary_ms,
)
from phasemeter.sinks.hlog import write_interval_log

MS = 1_000_000


def timeline(*, model="m", outcome=Outcome.OK, first_ms=100, gaps_ms=(20, 30), tags=None):
    t_ns = first_ms * MS
    events = [TokenEvent(t_ns, "content", None, 0)]
    for read, gap_ms in enumerate(gaps_ms, start=1):
        t_ns += gap_ms * MS
        events.append(TokenEvent(t_ns, "content", None, read))
    return Timeline(
        request_id="r",
        dialect="openai.chat",
        operation="chat",
        model=model,
        stamp_source="recv",
        started_ns=0,
        ended_ns=t_ns,
        outcome=outcome,
        events=tuple(events),
        tags=tags or {},
    )


@given(st.integers(min_value=1_000, max_value=3_600_000_000_000))
def test_a_value_in_range_comes_back_within_a_thousandth_or_a_microsecond(value_ns):
    """Three significant digits, unit 1 us."""
    histogram = new_histogram()

    assert record_ns(histogram, value_ns) is False
    back_ns = histogram.get_max_value() * 1000

    assert abs(back_ns - value_ns) <= max(1_000, value_ns // 1000)


@pytest.mark.parametrize(("value_ns", "lands_us"), [(0, 1), (-5, 1), (10**16, 3_600_000_000)])
def test_a_value_out_of_range_is_clamped_and_said_so(value_ns, lands_us):
    """Neither lost nor silent."""
    histogram = new_histogram()

    assert record_ns(histogram, value_ns) is True

    assert histogram.get_total_count() == 1
    assert histogram.get_value_at_percentile(50) == pytest.approx(lands_us, rel=1e-3)


@given(
    st.lists(st.integers(min_value=1_000, max_value=10**12)),
    st.lists(st.integers(min_value=1_000, max_value=10**12)),
)
def test_adding_is_recording_all(ours_ns, theirs_ns):
    """Merging loses nothing."""
    a, b, both = new_histogram(), new_histogram(), new_histogram()
    for value_ns in ours_ns:
        record_ns(a, value_ns)
        record_ns(both, value_ns)
    for value_ns in theirs_ns:
        record_ns(b, value_ns)
        record_ns(both, value_ns)

    add(a, b)

    assert a.encode() == both.encode()
    assert summary_ms(a) == summary_ms(both)


def test_histograms_of_other_parameters_are_not_added():
    """That would widen the error without a word."""
    with pytest.raises(ValueError, match=r"\(1, 1000, 2\) cannot be added"):
        add(new_histogram(), HdrHistogram(1, 1000, 2))


def test_an_empty_histogram_has_no_percentiles():
    """None, never 0."""
    assert summary_ms(new_histogram()) == {
        "count": 0,
        "p50": None,
        "p90": None,
        "p99": None,
        "p999": None,
        "max": None,
        "unit": "ms",
    }


def test_snapshot_holds_each_model_and_tag_combination_apart():
    """Counts of outcomes; latency over ok only; hand-computed values."""
    sink = HdrSink()
    sink.finished(timeline(tags={"feature": "a"}), None)
    sink.finished(timeline(tags={"feature": "a"}, first_ms=200), None)
    sink.finished(timeline(tags={"feature": "a"}, outcome=Outcome.TRUNCATED), None)
    sink.finished(timeline(tags={"feature": "b"}, gaps_ms=()), None)

    first, second = sink.snapshot()["groups"]

    assert (first["model"], first["tags"]) == ("m", {"feature": "a"})
    assert first["outcomes"] == {"ok": 2, "truncated": 1}
    ttft = first["metrics"]["ttft"]
    assert ttft["count"] == 2
    assert ttft["p50"] == pytest.approx(100, rel=1e-3)
    assert ttft["max"] == pytest.approx(200, rel=1e-3)
    assert first["metrics"]["gap"]["count"] == 4
    assert first["metrics"]["gap"]["p99"] == pytest.approx(30, rel=1e-3)
    assert "gap" not in second["metrics"]


def test_raw_gaps_are_all_gaps_and_clean_ones_those_that_no_consumer_limited():
    """Events at 100, 150 (had been waiting) and 170 ms: the application's 50 ms are not the stream's."""
    sink = HdrSink()
    whole = timeline(gaps_ms=(50, 20))
    first, second, third = whole.events
    limited = second._replace(consumer_limited=True)
    sink.finished(replace(whole, events=(first, limited, third), consumer_waits_ns=(49, 0)), None)

    for _ in range(2):  # looking twice records nothing twice
        metrics = sink.snapshot()["groups"][0]["metrics"]

        assert metrics["gap"]["count"] == 1
        assert metrics["gap"]["max"] == pytest.approx(20, rel=1e-3)
        assert metrics["gap_raw"]["count"] == 2
        assert metrics["gap_raw"]["max"] == pytest.approx(50, rel=1e-3)


@given(st.lists(st.integers(-5, 10**14), max_size=60))
def test_counting_first_is_recording_one_by_one(values_ns):
    """What is counted in between is as fine as the histogram: nothing is lost by it."""
    counted, one_by_one = new_histogram(), HdrHistogram(1, 3_600_000_000, 3, word_size=4)
    counts = Counter()
    count_us(counts, values_ns)

    clamped = record_counts(counted, counts)

    for value_ns in values_ns:
        one_by_one.record_value(min(max((value_ns + 500) // 1000, 1), 3_600_000_000))
    assert counted.encode() == one_by_one.encode()
    assert summary_ms(counted) == summary_ms(one_by_one)
    assert clamped == sum(not 1 <= (one + 500) // 1000 <= 3_600_000_000 for one in values_ns)


def test_groups_are_bounded():
    """What comes after the bound shares one group, and nothing is lost."""
    sink = HdrSink(max_groups=2)
    for number in range(5):
        sink.finished(timeline(model=f"m{number}"), None)

    groups = sink.snapshot()["groups"]

    assert [(one["model"], one["outcomes"]["ok"]) for one in groups] == [
        ("m0", 1),
        ("m1", 1),
        (OTHER, 3),
    ]


def test_responses_that_end_while_another_thread_looks_hold_nobody_up():
    """Two locks are involved; taken in two orders they would wait for each other for ever."""
    sink = HdrSink()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            sink.snapshot()
            sink.histograms()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    ending = threading.Thread(
        target=lambda: [sink.finished(timeline(), None) for _ in range(300)], daemon=True
    )
    ending.start()
    ending.join(30)
    stop.set()
    looking.join(30)

    assert not ending.is_alive()
    assert not looking.is_alive()
    assert sink.snapshot()["groups"][0]["metrics"]["ttft"]["count"] == 300


def test_the_interval_log_is_read_back_by_the_packages_reader(tmp_path):
    """Tags, counts, times and values survive."""
    gaps, ttft = new_histogram(), new_histogram()
    for value_ms in (20, 20, 1500):
        record_ns(gaps, value_ms * MS)
    record_ns(ttft, 100 * MS)
    path = tmp_path / "phases.hlog"
    start_unix_ns = 1_790_000_000_250 * MS

    write_interval_log(
        path, {"gap:short": gaps, "ttft": ttft}, start_unix_ns, start_unix_ns + 2_500 * MS
    )

    text = path.read_text()
    assert text.startswith("#[Histogram log format version 1.3]\n#[StartTime: 1790000000.250 ")
    assert "#[BaseTime: 1790000000.250 " in text
    assert "Tag=gap:short,0.000,2.500,1500.159," in text
    reader = HistogramLogReader(str(path), new_histogram())
    first, second = reader.get_next_interval_histogram(), reader.get_next_interval_histogram()
    assert reader.get_next_interval_histogram() is None
    reader.close()
    assert (first.get_tag(), second.get_tag()) == ("gap:short", "ttft")
    assert first.get_total_count() == 3
    assert first.get_value_at_percentile(50) == pytest.approx(20_000, rel=1e-3)
    assert second.get_max_value() == pytest.approx(100_000, rel=1e-3)
    assert first.get_start_time_stamp() == pytest.approx(1_790_000_000_250)
    assert first.get_end_time_stamp() == pytest.approx(1_790_000_002_750)


@pytest.mark.parametrize("tag", ["", "a,b", "a b", "a\n"])
def test_a_tag_that_would_break_the_log_is_refused(tag, tmp_path):
    """Before anything is written."""
    with pytest.raises(ValueError, match="comma or white space"):
        write_interval_log(tmp_path / "x.hlog", {tag: new_histogram()}, 0, 1)

    assert not (tmp_path / "x.hlog").exists()


def test_a_sink_writes_its_own_log(tmp_path):
    """One line a metric, merged over the groups."""
    sink = HdrSink()
    sink.finished(timeline(), None)
    sink.finished(timeline(model="other"), None)

    sink.write_log(tmp_path / "x.hlog")
    reader = HistogramLogReader(str(tmp_path / "x.hlog"), new_histogram())
    counts = {}
    while (one := reader.get_next_interval_histogram()) is not None:
        counts[one.get_tag()] = one.get_total_count()
    reader.close()

    assert counts["ttft"] == 2
    assert counts["gap"] == 4
