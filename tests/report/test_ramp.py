"""The ramp on the page and on the terminal."""

import io
import json

import plotly.graph_objects as go
import pytest

from phasemeter.analysis.ramp_levels import Estimate, by_topology, peak_of
from phasemeter.analysis.summary import summarise
from phasemeter.experiments.interference import analyse
from phasemeter.report.page import render_page
from phasemeter.report.plots import interference_plots
from phasemeter.report.ramp_figures import gap_over_users, throughput_over_users, ttft_over_users
from phasemeter.report.ramp_rows import COLUMNS, ramp_rows
from phasemeter.report.terminal import print_report
from tests.experiments.ramp_factory import make_ramp


@pytest.fixture(scope="module")
def run():
    return make_ramp(arms=("mixed", "separated"))


@pytest.fixture(scope="module")
def finding(run):
    return analyse(run)


def test_latencies_are_lines_with_their_intervals(finding):
    drawn = ttft_over_users(finding.ramp, "short")

    go.Figure(drawn)
    names = [trace["name"] for trace in drawn["data"]]
    assert names[:3] == ["mixed, p50", "mixed, p90", "mixed, p99"]
    median = drawn["data"][0]
    assert median["x"] == [1, 2, 4, 8]
    assert median["y"] == pytest.approx([52, 102, 202, 402], abs=3)
    assert any(bar > 0 for bar in median["error_y"]["array"])
    assert drawn["layout"]["xaxis"]["ticktext"] == ["1", "2", "4", "8"]
    gaps = gap_over_users(finding.ramp, "long")
    assert [trace["name"] for trace in gaps["data"]] == [
        *("mixed, p50", "mixed, p99", "separated, p50", "separated, p99")
    ]


def test_throughput_tells_the_share_of_a_gpu(finding):
    drawn = throughput_over_users(finding.ramp)

    go.Figure(drawn)
    assert [trace["name"] for trace in drawn["data"]] == ["mixed", "separated"]
    assert len(drawn["data"][0]["text"]) == len(drawn["data"][0]["x"]) == 4
    assert "per GPU" in drawn["data"][0]["text"][0]


def test_a_page_of_a_ramp_alone_has_its_drawings_and_table_only(run, finding):
    names = [plot.name for plot in interference_plots(run, finding)]
    html = render_page(run, summarise(run), finding)

    assert names == [
        *("ramp-ttft1", "ramp-gap1", "ramp-ttft2", "ramp-gap2", "ramp-throughput"),
    ]
    for name in names:
        assert f'data-for="{name}"' in html
    assert "<h2>Ramp</h2>" in html
    assert "<h2>Arms</h2>" not in html
    assert "mixed.ramp.u8_vs_u1.short.ttft_p50" in html


def test_rows_mark_the_peak_and_say_nothing_twice(finding):
    rows = ramp_rows(finding.ramp)

    assert all(len(row.cells) == len(row.intervals) == len(COLUMNS) for row in rows)
    assert [row.cells[0] for row in rows if row.cells[0]] == ["mixed", "separated"]
    assert [row.cells[1] for row in rows][:4] == ["1", "", "2", ""]
    assert [row.cells[2] for row in rows][:2] == ["short", "long"]
    marked = [(row.topology, row.users) for row in rows if row.cells[-2].endswith("*")]
    peaks = [(name, peak_of(mine).users) for name, mine in by_topology(finding.ramp).items()]
    assert marked == peaks
    assert ("mixed", 8) in marked
    assert " to " in rows[0].intervals[4]


def test_the_terminal_shows_one_table_a_topology_within_100_columns(run, finding, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    file = io.StringIO()

    print_report(run, summarise(run), finding, file=file)

    text = file.getvalue()
    assert "ramp, mixed, latencies in ms" in text
    assert "ramp, separated, latencies in ms" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "8 users instead of 1 user" in " ".join(text.split())
    assert "\nfactors" not in text


def test_a_value_for_each_gpu_is_unknown_where_nobody_told_their_number():
    assert Estimate(10.0, (8.0, 12.0)).per(2) == Estimate(5.0, (4.0, 6.0))
    assert Estimate(10.0, (8.0, 12.0)).per(None) == Estimate(None, None)
    assert Estimate(None, None).per(2) == Estimate(None, None)


def test_the_document_is_json(finding):
    assert json.loads(json.dumps(finding.to_json()))["ramp"]["mixed"]["levels"]
