"""What injected prompts did, on the page and in the terminal."""

import io
import json
import re

import plotly.graph_objects as go
import pytest

from benchmarks.simulated_engine import Engine, simulate
from phasemeter.analysis.summary import summarise
from phasemeter.experiments.interference import analyse
from phasemeter.report.figure import log_range
from phasemeter.report.inject_figures import gaps_over_length, stall_lengths
from phasemeter.report.page import render_page
from phasemeter.report.terminal import print_report


@pytest.fixture(scope="module")
def run():
    return simulate(Engine(drift=0.0, hiccup_rate=0.0), 1, inject_s=5.0)


@pytest.fixture(scope="module")
def finding(run):
    return analyse(run)


def test_the_terminal_shows_the_grid_and_the_effects_within_100_columns(run, finding, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    file = io.StringIO()

    print_report(run, summarise(run), finding, file=file)

    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 100
    grid = text.partition("injection by cell, mixed")[2]
    row = next(line for line in grid.splitlines() if line.split()[:2] == ["4", "512"])
    assert row.split()[2:4] == ["1", "10/10"]
    assert "112.4" in row
    effects = text.partition("injection in all, mixed")[2]
    row = next(line for line in effects.splitlines() if line.split()[:1] == ["4"])
    assert row.split()[2].startswith("0.2")


def test_the_page_has_the_grid_its_drawings_and_the_stalls(run, finding):
    html = render_page(run, summarise(run), finding)

    figures = {
        name: json.loads(text)
        for name, text in re.findall(r'data-for="([^"]+)">(.*?)</script>', html, re.DOTALL)
    }
    for name in ("grid1", "stalls"):
        go.Figure(figures[name])
    assert "<h2>Injection</h2>" in html
    assert html.count("10/10") == 2


def test_the_grid_is_drawn_with_the_bands_before_and_after(finding):
    drawn = gaps_over_length(finding.cells)

    names = [trace["name"] for trace in drawn["data"]]
    assert names == [
        "4 users: before, p50 to p99",
        "4 users: after, p50 to p99",
        "4 users, n = 1: longest",
        "4 users, n = 1: p99",
        "4 users, n = 1: p50",
    ]
    longest = drawn["data"][2]
    assert longest["x"] == [256, 512]
    assert longest["y"] == pytest.approx([61.2, 112.4], rel=1e-3)


def test_the_stalls_curve_rises_to_all_of_them(finding):
    (curve,) = stall_lengths(finding.effects)["data"]

    assert curve["y"][-1] == 100
    assert curve["x"] == sorted(curve["x"])
    assert curve["x"][0] == pytest.approx(61.2, rel=1e-3)


def test_the_axis_of_stalls_ends_at_labels(finding):
    """Stalls of 61 to 112 ms: an axis that ends there has one label, or none."""
    axis = stall_lengths(finding.effects)["layout"]["xaxis"]

    assert [10**end for end in axis["range"]] == pytest.approx([50, 200])
    assert [10**end for end in log_range([3.0])] == pytest.approx([2, 5])
    assert [10**end for end in log_range([0.02, 700])] == pytest.approx([0.01, 1000])


def test_everything_is_in_the_json_document(finding):
    document = json.loads(json.dumps(finding.to_json()))

    cell, _ = document["cells"]
    assert (cell["users"], cell["prompt_tokens"], cell["overlapped"]) == (4, 256, 10)
    assert cell["longest_gap_factor"]["ci95"][0] > 1
    (effect,) = document["effects"]
    assert effect["lost_ms_per_prompt_token"]["value"] == pytest.approx(0.2, rel=0.06)
    assert effect["recovery"]["steps_p50"] == 0
    assert effect["stalls"]["inject"]["curve_ms"]
    assert document["exposures"][0]["decoding"] == 4
    assert "factors" in document
