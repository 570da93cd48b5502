"""The planner's report: tables, sentences, drawings and the whole page."""

import io
import json

import plotly.graph_objects as go
import pytest
from test_page import parse

from phasemeter.cli.options import exit_status
from phasemeter.report.document import read_report, write_report
from phasemeter.report.planner_figures import throughput_by_split
from phasemeter.report.planner_rows import PLAN_COLUMNS, plan_rows, verdict
from phasemeter.report.terminal import print_report
from tests.experiments.planner_factory import write_planner_run


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return read_report(write_planner_run(tmp_path_factory.mktemp("run") / "a"))


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    return read_report(write_planner_run(tmp_path_factory.mktemp("run") / "a", keep=7))


def test_a_row_a_topology_with_what_was_measured_beside_it(report):
    rows = plan_rows(report.planner)

    assert [row[0] for row in rows] == ["1P1D", "2 mixed"]
    assert all(len(row) == len(PLAN_COLUMNS) for row in rows)
    assert rows[0][2].startswith("10.0")
    assert rows[0][4] == "prefill"
    assert rows[0][5].startswith("9.00 [")
    assert rows[0][7].startswith("0.90 [")


def test_the_verdict_says_what_is_best_or_what_is_missing(report, interrupted):
    assert verdict(report.planner).startswith("Of the splits 1P1D is predicted to serve most: ")
    assert "prefill instances for each decode instance" in verdict(report.planner)
    assert verdict(interrupted.planner) == (
        "Nothing can be predicted: the rate of prefill and of decode alone is missing."
    )


def test_the_terminal_shows_it_within_100_columns(report, interrupted, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    for one, words in (
        (report, ("1P1D", "2 mixed", "0.90 [", "plan: 2 GPUs for the mix only 100% 100/20")),
        (interrupted, ("Nothing can be predicted",)),
    ):
        out = io.StringIO()
        print_report(one.run, one.summary, one.finding, planner=one.planner, file=out)

        for word in words:
            assert word in out.getvalue()
        assert max(map(len, out.getvalue().splitlines())) <= 100


def test_the_figure_has_a_bar_and_a_mark_for_each(report):
    bars, marks = throughput_by_split(report.planner)["data"]

    assert bars["x"] == ["1P1D", "2 mixed"]
    assert sorted(marks["x"]) == ["1P1D", "2 mixed"]
    assert bars["marker"]["color"][0] != bars["marker"]["color"][1]


@pytest.mark.parametrize("which", ["report", "interrupted"])
def test_the_page_is_complete(which, request, tmp_path):
    one = request.getfixturevalue(which)
    html = tmp_path / "page.html"

    assert write_report(one, html=html) == []

    page = parse(html.read_text(encoding="utf-8"))
    text = " ".join(" ".join(page.text).split())
    assert verdict(one.planner)[:60] in text
    assert "Latency" not in text  # latencies over all runs together say nothing
    assert {"phases", "searched"} <= page.figures.keys()
    for figure in page.figures.values():
        go.Figure(figure)
        assert figure["layout"]["xaxis"]["title"]["text"]


def test_the_summary_and_the_exit_status_follow(report, interrupted):
    """3 where nothing could be predicted."""
    assert write_report(report) == []
    document = json.loads((report.run.path / "summary.json").read_text())
    assert document["plan"]["predicted"].keys() == {"1P1D", "2 mixed"}
    assert exit_status(report) == 0
    assert exit_status(interrupted) == 3
