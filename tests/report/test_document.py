"""The report of a run folder, from files alone."""

import json
from contextlib import closing

import pytest
from hdrh.log import HistogramLogReader
from interference_factory import analyse, write_interference_run
from run_factory import ANCHOR, make_timeline, write_run

from phasemeter.core.errors import UsageError
from phasemeter.report.document import read_report, write_report
from phasemeter.report.hgrm import hgrm_text
from phasemeter.sinks.histogram import new_histogram

SHORT = {"class": "short, quick"}


@pytest.fixture
def load_run_path(tmp_path):
    """Two responses: TTFT 12 and 20 ms, gaps of 10 ms."""
    timelines = [
        make_timeline("a", first_ms=12, gaps_ms=(10, 10)),
        make_timeline("b", start_ms=10, first_ms=30, gaps_ms=(10,), tags=SHORT),
    ]
    return write_run(tmp_path / "run", timelines, still_running=[make_timeline("c")])


def report_on(path, **files):
    """Read and write a report; its document."""
    report = read_report(path)
    assert write_report(report, **files) == []
    return report.to_json()


def test_the_summary_is_returned_and_written(load_run_path):
    """What `--json` prints is what `summary.json` holds."""
    document = report_on(load_run_path)

    assert json.loads((load_run_path / "summary.json").read_text()) == document
    assert document["requests"]["in_flight"] == 1
    assert document["metrics"]["ttft"]["max"] == pytest.approx(20, rel=1e-3)
    assert "interference" not in document
    assert not (load_run_path / "report.html").exists()


def test_reporting_twice_gives_the_same_files(load_run_path):
    """A report is a pure function of the run's files; nothing half-written stays behind."""
    report_on(load_run_path, html=load_run_path / "report.html")
    before = {path.name: path.read_bytes() for path in load_run_path.iterdir()}

    report_on(load_run_path, html=load_run_path / "report.html")

    assert {path.name: path.read_bytes() for path in load_run_path.iterdir()} == before


def test_phases_are_written_as_an_interval_log_by_metric_and_class(load_run_path):
    """HdrHistogram's own reader finds tags, counts and the start in epoch time."""
    report_on(load_run_path)

    path = str(load_run_path / "phases.hlog")
    counts = {}
    with closing(HistogramLogReader(path, new_histogram())) as reader:
        while (histogram := reader.get_next_interval_histogram()) is not None:
            counts[histogram.get_tag()] = histogram.get_total_count()
            start_ms = histogram.get_start_time_stamp()
            assert start_ms == pytest.approx(ANCHOR.unix_ns / 1e6, abs=1)
    assert counts["gap.short"] == 2
    assert counts["gap.short__quick"] == 1
    assert counts["ttft.short"] == 1


def test_percentile_files_are_written_on_request(load_run_path, tmp_path):
    """One .hgrm a metric and class, values and deviation in ms."""
    report_on(load_run_path, hgrm=tmp_path / "hgrm")

    text = (tmp_path / "hgrm" / "ttft.short.hgrm").read_text()
    assert text.splitlines()[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    assert "12.00" in text
    assert "TotalCount     =        1.000" in text


def test_a_run_killed_before_anything_ended_reports(tmp_path):
    """Counts, unknown metrics, an invalid verdict and a page that says so; no interval log."""
    path = write_run(tmp_path, [], still_running=[make_timeline("a")], workers=[])

    document = report_on(path, html=path / "report.html")

    assert document["validity"]["verdict"] == "invalid"
    assert "no request ended ok (1 issued)" in (path / "report.html").read_text()
    assert not (path / "phases.hlog").exists()


def test_an_interference_run_carries_its_finding(tmp_path):
    """Verdict, factors and arms are in the document; histograms are kept apart by arm."""
    report = read_report(write_interference_run(tmp_path, repeats=1), analyse=analyse)

    write_report(report)

    document = json.loads((tmp_path / "summary.json").read_text())
    assert document["interference"]["verdict"]["kind"] == "interference"
    assert document["interference"]["factors"]["mixed.inject.background.gap_max"]["value"] > 5
    assert document["interference"]["arms"]["separated/together"]["requests"]["ok"] == 24
    assert "Tag=gap.background.mixed.inject," in (tmp_path / "phases.hlog").read_text()


def test_a_folder_that_cannot_be_written_is_one_clear_line(load_run_path):
    """The path that failed is named, and no traceback reaches the user."""
    with pytest.raises(UsageError, match=r"cannot write .*nowhere"):
        report_on(load_run_path, html=load_run_path / "nowhere" / "report.html")


def test_the_hgrm_deviation_is_in_ms():
    """Of 10 ms and 30 ms the standard deviation is 10 ms."""
    histogram = new_histogram()
    histogram.record_value(10_000)
    histogram.record_value(30_000)

    deviation = hgrm_text(histogram).split("StdDeviation   =")[1].split("]")[0]

    assert float(deviation) == pytest.approx(10, rel=1e-2)


def test_an_archived_run_can_be_read_though_nothing_can_be_kept_beside_it(
    load_run_path, monkeypatch
):
    """A read-only folder: what was not asked for is a warning, what was asked for an error."""
    refusal = OSError(30, "Read-only file system")

    def refuse(path, text):
        raise refusal

    monkeypatch.setattr("phasemeter.report.document.write_atomically", refuse)
    report = read_report(load_run_path)

    (warning,) = write_report(report)
    assert "Read-only file system" in warning
    with pytest.raises(UsageError, match=r"page\.html .*Read-only"):
        write_report(report, html=load_run_path / "page.html")
