"""The report on a terminal and through a pipe."""

import io
from dataclasses import replace

import pytest
from interference_factory import analyse, write_interference_run
from run_factory import MS, make_timeline, worker_end, write_run

from phasemeter.core.timeline import Leg, Outcome
from phasemeter.report.document import read_report
from phasemeter.report.terminal import print_report


def printed(path, **options):
    report = read_report(path, **options)
    file = io.StringIO()
    print_report(report.run, report.summary, report.finding, file=file)
    return file.getvalue()


@pytest.fixture
def load_path(tmp_path):
    timelines = [
        make_timeline("a", first_ms=12, gaps_ms=(10, 10, 250)),
        make_timeline("b", first_ms=1234.5, gaps_ms=(10,), tags={"class": "long"}),
        make_timeline("c", outcome=Outcome.ERROR, error_type="overloaded"),
    ]
    return write_run(tmp_path, timelines)


def test_a_pipe_gets_plain_text_within_100_columns(load_path, tmp_path, monkeypatch):
    """No escape sequences, nothing cut off, nothing wider than the promise."""
    monkeypatch.delenv("COLUMNS", raising=False)
    interference = write_interference_run(tmp_path / "i", repeats=1)

    for text in (printed(load_path), printed(interference, analyse=analyse)):
        assert "\x1b" not in text
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        assert max(map(len, text.splitlines())) <= 100


def test_a_load_report_tells_requests_latency_and_throughput(load_path):
    """Figures with their units, per class and together, errors by type, stamps, verdict."""
    text = printed(load_path)

    long_row = next(line for line in text.splitlines() if line.split()[:2] == ["long", "ttft"])
    assert long_row.split()[2:] == ["1"] + ["1,234.9"] * 4
    for expected in (
        "latency, ms (outcome ok only)",
        "all classes",
        "errors by type: overloaded 1",
        "output tokens/s",
        "stamps: kernel",
        "validity: suspect",
    ):
        assert expected in text


def test_doubts_come_before_the_figures(tmp_path):
    """A suspect run says why first."""
    timeline = make_timeline("a", first_ms=5, gaps_ms=(5,), stamp_source="yield")
    path = write_run(tmp_path, [timeline], workers=[worker_end(loop_lag_ms=(0.1, 1.5, 3))])

    text = printed(path)

    assert text.index("validity: suspect") < text.index("requests")
    assert (
        "user-space stamps were up to 1.5 ms late (p99), beside gaps of 5.0 ms (p50)"
        in " ".join(text.split())
    )


def test_an_unfinished_run_prints_dashes_not_zeros(tmp_path):
    """Unknown is shown as unknown."""
    text = printed(write_run(tmp_path, [], still_running=[make_timeline("a")]))

    row = next(line for line in text.splitlines() if line.split()[:1] == ["whole"])
    assert row.split() == ["whole", "run"] + ["\N{EN DASH}"] * 4
    assert "no request ended ok (1 issued)" in text


def test_an_interference_report_tells_verdict_factors_and_arms(tmp_path):
    """The paragraph, each factor with its interval, each arm with its classes."""
    text = printed(write_interference_run(tmp_path), analyse=analyse)

    assert "verdict: interference shown" in text
    group = text.partition("inject, background")[2]
    row = next(line for line in group.splitlines() if "gap p99" in line)
    assert row.count("[") == row.count("]") >= 1
    for arm in ("mixed/inject", "mixed/together", "separated/long_alone"):
        assert arm in text


def test_colour_is_off_where_no_color_is_set(load_path, monkeypatch):
    """NO_COLOR wins over a terminal that could."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert "\x1b[3" not in printed(load_path)


def test_labels_that_look_like_markup_are_shown_as_they_are(tmp_path):
    """A class named `x[/nope]` is no closing tag, and `[bold]` no style."""
    timelines = [
        make_timeline(name, first_ms=10, gaps_ms=(5,), tags={"class": name})
        for name in ("x[/nope]", "[bold]y")
    ]

    text = printed(write_run(tmp_path, timelines))

    assert "x[/nope]" in text
    assert "[bold]y" in text


def test_legs_are_told_where_requests_had_them(tmp_path):
    """Two requests with a hand-off: 40 ms to the prefill answer, 5 ms between, 15 ms to the token."""
    legs = [Leg("prefill", 1 * MS, 39 * MS, 40 * MS), Leg("decode", 45 * MS, 50 * MS, 99 * MS)]
    plain = [make_timeline(f"p{k}", first_ms=60, gaps_ms=(10, 5)) for k in range(2)]
    two = [replace(t, request_id=f"s{k}", legs=_after(t, legs)) for k, t in enumerate(plain)]

    without = printed(write_run(tmp_path / "plain", plain))
    text = printed(write_run(tmp_path / "legs", two))

    rows = {line.split()[-6]: line.split()[-5:] for line in text.splitlines() if " 2 " in line}
    for name, ms in (("prefill_leg", "40.0"), ("handoff", "5.0"), ("decode_leg", "15.0")):
        assert rows[name][1].startswith(ms[:-1])
    assert rows["second_gap"][1].startswith("10")
    assert "ttft = prefill_leg" in text
    assert "second_gap" not in without
    assert "prefill_leg" not in without


def _after(timeline, legs):
    start_ns = timeline.started_ns
    return tuple(
        Leg(leg.role, start_ns + leg.sent_ns, start_ns + leg.headers_ns, start_ns + leg.ended_ns)
        for leg in legs
    )
