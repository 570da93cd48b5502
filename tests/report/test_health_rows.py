"""How well the measuring went, on the terminal and on the page; unknown is a dash and what is not told is not shown."""

import io

from phasemeter.analysis.records import load_run
from phasemeter.analysis.summary import summarise
from phasemeter.load.health import Lags
from phasemeter.report.health_rows import lag_rows, machine_line, reads_line, worker_rows
from phasemeter.report.page import render_page
from phasemeter.report.terminal import print_report
from tests.analysis.run_factory import MS, make_timeline, worker_end, write_run


def encoded(*times_ms):
    lags = Lags()
    for t_ms in times_ms:
        lags.add(t_ms * MS)
    return lags.encoded()


def run_in(folder):
    """One worker that told all of itself, one that told little; 4 single reads and one of five events."""
    told = worker_end(0) | {
        "cpu_s": 2.5,
        "wall_s": 10.0,
        "cpu_wait_s": 0.5,
        "machine_busy_cores": 1.25,
        "steal_share": 0.012,
        "read_lag_ns": [0, 3 * MS, 9 * MS],
        "histograms": {"read_lag": encoded(1, 3, 9)},
    }
    single = make_timeline("a", first_ms=5, gaps_ms=(5, 5, 5))
    clump = make_timeline("b", first_ms=5, gaps_ms=(0, 0, 0, 0), coalesced=(1, 2, 3, 4))
    return load_run(write_run(folder, [single, clump], workers=[told]))


def test_the_figures_of_a_worker_and_its_machine_are_rows_of_text(tmp_path):
    health = summarise(run_in(tmp_path))["health"]

    assert ("read_lag", "arrival to read", "3", "3.00", "9.00", "9.00") in lag_rows(health)
    assert "send_lag" not in {row[0] for row in lag_rows(health)}
    assert worker_rows(health)[0][:5] == ("0", "done", "25.0%", "5.0%", "all")
    assert "CPU at most 25.0% of a core; waited for a core 5.0%; other processes 1.0 cores" in (
        machine_line(health)
    )
    assert "stolen 1.2%; governor \N{EN DASH}" in machine_line(health)
    assert reads_line(health) == "token events a read: 1: 80.0%, 4 or more: 20.0% (at most 5)"


def test_the_terminal_and_the_page_show_them(tmp_path):
    run = run_in(tmp_path)
    summary = summarise(run)
    printed = io.StringIO()
    print_report(run, summary, None, file=printed)
    page = render_page(run, summary, None)

    for text in (printed.getvalue(), page):
        assert "arrival to read" in text
        assert "4 or more: 20.0%" in text
    assert "<h2>Measuring itself</h2>" in page
    assert "Each load worker" in page


def test_a_run_that_tells_nothing_of_its_measuring_has_no_such_part(tmp_path):
    run = load_run(write_run(tmp_path, [], still_running=[make_timeline("a")], workers=[]))
    health = summarise(run)["health"]

    assert (lag_rows(health), worker_rows(health)) == ([], [])
    assert (machine_line(health), reads_line(health)) == ("", "")
    assert "Measuring itself" not in render_page(run, summarise(run), None)
