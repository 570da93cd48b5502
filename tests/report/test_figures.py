"""The drawings' data, by hand."""

import numpy as np
import pytest
from interference_factory import write_interference_run
from run_factory import MS, make_timeline

from phasemeter.analysis.records import load_run
from phasemeter.analysis.window import Window
from phasemeter.report.curves import percentile_curve, share_curve
from phasemeter.report.figure import colours, translucent
from phasemeter.report.interference_figures import inject_raster
from phasemeter.report.raster import MAX_ROWS, MAX_TICKS, token_raster
from phasemeter.report.rates import bin_width_s, token_rate

BLUE = {"short": "#1b85d6"}


def test_a_raster_row_has_a_wait_and_a_tick_for_each_event():
    """Sent at 5 ms, tokens at 20, 30 and 50 ms; one path each, broken between its parts."""
    timeline = make_timeline("a", sent_ms=5, first_ms=20, gaps_ms=(10, 20))

    wait, ticks = token_raster([timeline], BLUE, origin_ns=0).figure["data"]

    assert wait["x"] == [0.005, 0.02, None]
    assert ticks["x"] == [0.02, 0.02, None, 0.03, 0.03, None, 0.05, 0.05, None]
    assert ticks["y"][2::3] == [None] * 3


def test_many_requests_are_thinned_by_whole_rows_and_the_page_says_so():
    """Single ticks are never left out: that would look like a pause."""
    timelines = [make_timeline(f"r{i}", first_ms=1, gaps_ms=(1,) * 9) for i in range(500)]

    raster = token_raster(timelines, BLUE, origin_ns=0)

    ticks = len(raster.figure["data"][1]["x"]) // 3
    assert raster.note == "Thinned out: 125 of 500 requests are drawn (1 in 4)."
    assert ticks == 125 * 10
    assert ticks <= MAX_TICKS
    assert ticks // 10 <= MAX_ROWS


def test_few_requests_are_all_drawn_without_a_note():
    """Nothing to say where nothing is left out."""
    assert token_raster([make_timeline(first_ms=1)], BLUE, origin_ns=0).note is None


def test_an_inject_raster_puts_background_below_and_starts_at_the_baseline(tmp_path):
    """Eight streams below, four prompts above; only the first repeat; phases named in order."""
    run = load_run(write_interference_run(tmp_path))

    raster = inject_raster(run, "mixed", colours(["background", "injected"]))

    rows = {
        trace["name"]: sorted({y for y in trace["y"] if y is not None})
        for trace in raster.figure["data"]
        if "waits" in trace["name"]
    }
    assert rows["background: waits for its first token"] == list(range(8))
    assert rows["injected: waits for its first token"] == list(range(8, 12))
    names = [note["text"] for note in raster.figure["layout"]["annotations"]]
    assert names == ["baseline", "inject", "recovery"]


def test_an_unknown_topology_has_no_raster(tmp_path):
    """No phases, no drawing."""
    run = load_run(write_interference_run(tmp_path, repeats=1))

    assert inject_raster(run, "elsewhere", {}) is None


def test_a_percentile_curve_ends_where_the_samples_end():
    """Of 1..1000 ms the curve passes 500 ms at 50 % and ends at 1 - 1/1000."""
    values = np.arange(1, 1001, dtype=np.int64) * MS

    curve = percentile_curve("c", values, "#000000")

    assert curve["x"][-1] == pytest.approx(1000)
    assert curve["y"][-1] == pytest.approx(999)
    assert np.interp(2, curve["x"], curve["y"]) == pytest.approx(500, rel=0.05)
    assert curve["name"] == "c (n = 1,000)"


def test_a_share_curve_reaches_everything_at_the_maximum():
    """Three samples: a third, two thirds, all."""
    curve = share_curve("c", np.array([30, 10, 20], dtype=np.int64) * MS, "#000000")

    assert curve["x"] == [10, 20, 30]
    assert curve["y"] == [33.333, 66.667, 100]


def test_token_rate_counts_every_token_once():
    """Rates times the bin width add up to the tokens: 3 events of 2 tokens."""
    timeline = make_timeline("a", first_ms=100, gaps_ms=(400, 500), tokens=2)
    whole = Window(0, 1000 * MS)

    figure = token_rate([timeline], BLUE, whole, whole)

    assert sum(figure["data"][0]["y"]) * bin_width_s(1.0) == pytest.approx(6)
    assert figure["layout"]["yaxis"]["title"]["text"] == "tokens per second"


def test_token_rate_falls_back_to_events_and_says_so():
    """Where nobody tells tokens the axis is named after what was counted."""
    timeline = make_timeline("a", first_ms=100, gaps_ms=(900,), tokens=None)

    figure = token_rate([timeline], BLUE, Window(0, 1000 * MS), None)

    assert sum(figure["data"][0]["y"]) * bin_width_s(1.0) == pytest.approx(2)
    assert figure["layout"]["yaxis"]["title"]["text"] == "token events per second"


@pytest.mark.parametrize(
    ("duration_s", "width_s"), [(1.0, 0.01), (10, 0.1), (60, 0.5), (3600, 50), (0.001, 0.01)]
)
def test_bins_are_round_and_at_most_120(duration_s, width_s):
    """A reader can name the width."""
    assert bin_width_s(duration_s) == pytest.approx(width_s)


def test_colours_are_given_in_order_and_start_over():
    """Names keep their colour through a page."""
    given = colours([*"abcdefghi", "a"])

    assert given["a"] == given["h"]
    assert len(given) == 9
    assert translucent("#ff8000", 0.5) == "rgba(255,128,0,0.5)"
