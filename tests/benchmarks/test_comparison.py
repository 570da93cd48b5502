"""Results are summed up, kept, climbed with and written down."""

import pytest
from rich.console import Console

from benchmarks.accuracy_page import accuracy_text
from benchmarks.bench_run import Bench, Size
from benchmarks.ladder import climb, verdict
from benchmarks.page import write_page
from benchmarks.peers import by_name
from benchmarks.peers.tool import Reported
from benchmarks.results import Comparison, Result, Rung, summarise
from benchmarks.table import show
from benchmarks.truth_figures import Span, TruthFigures


def truth(gap_p99_ms=22.0, late_p99_ms=0.5):
    return TruthFigures(
        requests=4,
        started_ns=0,
        ended_ns=2_000_000_000,
        token_events=1000,
        ttft_p50_ms=Span(200, 200),
        ttft_p99_ms=Span(205, 210),
        gap_p99_ms=Span(gap_p99_ms, gap_p99_ms),
        gap_max_ms=Span(30, 30),
        late_p99_ms=late_p99_ms,
        blocked_writes=0,
    )


def result(tool="phasemeter", number=1, gap_p99_ms=22.1, users=64, **changes):
    reported = Reported(4, 200.5, 211.0, gap_p99_ms, 31.0, 100, 3, 202.0, 213.0)
    fields = {"cpu_s": 1.0, "load_cpu_s": 0.04, "wall_s": 3.5, "peak_rss_bytes": 90_000_000}
    return Result(tool, users, number, None, truth(), reported, **{**fields, **changes})


def comparison():
    machine = {
        "processor": "CPU",
        "cores": "2",
        "memory": "24 GiB",
        "kernel": "6",
        "governor": "performance",
        "python": "3.11",
    }
    return Comparison(
        date="2026-01-02",
        machine=machine,
        settings={"users": 64},
        versions={"phasemeter": "1.2"},
        notes={"phasemeter": "TTFT is its ttft_wire"},
        unavailable={"slow-tool": "could not be installed: no disk"},
        rounds=[
            result(),
            result(number=2, gap_p99_ms=21.7),
            result("other", gap_p99_ms=32.0),
            Result("broken", 64, 1, failure="exit status 1"),
            result("aiohttp-loop", load_cpu_s=0.06, gap_p99_ms=None),
        ],
        busy=[result(gap_p99_ms=22.3)],
        ladder=[result(users=16), result(users=32, gap_p99_ms=25.0)],
        rungs=[Rung("phasemeter", 16, 32, "gap p99 off by +3.00 ms")],
    )


def test_figures_of_a_run():
    """0.04 s of CPU over 1,000 events are 40 us each; 3.5 s around a load of 2 s leave 1.5 s."""
    figures = result().figures()

    assert figures["gap_p99_error_ms"] == pytest.approx(0.1)
    assert figures["ttft_p99_error_ms"] == pytest.approx(1.0)
    assert figures["cpu_us_per_event"] == pytest.approx(40)
    assert figures["around_s"] == pytest.approx(1.5)
    assert figures["peak_rss_mb"] == pytest.approx(90)


def test_medians_take_errors_by_their_size():
    """+0.1 and -0.3 ms do not cancel out."""
    medians = summarise([result(gap_p99_ms=22.1), result(gap_p99_ms=21.7)])

    assert medians["gap_p99_error_ms"] == pytest.approx(0.2)


def test_what_no_run_tells_is_unknown():
    medians = summarise([result(gap_p99_ms=None), Result("x", 1, 1, failure="no")])

    assert medians["gap_p99_error_ms"] is None
    assert medians["cpu_us_per_event"] == pytest.approx(40)


def test_a_saved_comparison_is_the_same_again(tmp_path):
    before = comparison()
    before.save(tmp_path / "results.json")

    assert Comparison.load(tmp_path / "results.json") == before


class ScriptedBench(Bench):
    """Gives each try of each load an error, in turn."""

    def __init__(self, errors_ms):
        object.__setattr__(self, "errors_ms", list(errors_ms))

    def run(self, tool, size, number):
        return result(tool.name, number, 22.0 + self.errors_ms.pop(0), size.users)


def test_a_rung_has_failed_when_both_tries_have():
    """16 passes at once, 32 at the second try, 64 never."""
    seen = []
    rung = climb(ScriptedBench([0.5, 3.0, -0.9, 1.2, -1.1]), by_name("phasemeter"), seen.append)

    assert (rung.users, rung.failed_at) == (32, 64)
    assert rung.why == "gap p99 off by -1.10 ms"
    assert [(one.users, one.round) for one in seen] == [(16, 1), (32, 1), (32, 2), (64, 1), (64, 2)]


def test_a_tool_without_gaps_is_tried_once():
    class Gapless(ScriptedBench):
        def run(self, tool, size, number):
            return result(tool.name, number, None, size.users)

    seen = []
    rung = climb(Gapless([]), by_name("guidellm"), seen.append)

    assert (rung.users, rung.failed_at, rung.why) == (None, None, "reports no gaps")
    assert len(seen) == 1


def test_a_ladder_without_a_failure_ends_at_its_top():
    rung = climb(ScriptedBench([0.0] * 11), by_name("phasemeter"), lambda one: None)

    assert (rung.users, rung.failed_at, rung.why) == (1024, None, "the ladder ended")


def test_a_tool_without_gaps_and_a_server_at_its_limit_are_told_apart():
    slow = Result("x", 64, 1, None, truth(late_p99_ms=50), Reported(gap_p99_ms=22.0))

    assert verdict(result(gap_p99_ms=None)) == "reports no gaps"
    assert verdict(slow) == "the server itself was 50 ms late"
    assert verdict(result()) == ""


def test_the_document_says_what_was_measured():
    text = accuracy_text(comparison())

    assert "| phasemeter 1.2 | 0.50 | 1.00 | 0.200 | 1.00 | 3 | 40 | 1.0 | 1.5 | 90 |" in text
    assert "| phasemeter | 1 | 200.50 (200.00) | 211.00 (205.00 to 210.00) | 22.10 (22.00)" in text
    assert "| other | 50.0 | 1.0 | 1.0 | 1.0 |" in text
    assert "slow-tool is missing: could not be installed: no disk." in text
    assert "broken, round 1: exit status 1." in text
    assert "| gap p99 error | 0.200 ms | 0.200 ms |" in text
    assert "| the same beside a busy process | 0.300 ms | 0.200 ms | **no** |" in text
    assert (
        "| the same, at most half of a plain aiohttp loop's | 40.000 us | 30.000 us | **no** |"
        in text
    )
    assert "`ttft`, which contains connecting, was 3.00 ms above the truth at p99" in text


def test_the_highest_load_is_compared_with_that_of_the_peers():
    """1,024 streams are 64 times 16 and 4 times 256; one that fails at 16 has no figure."""
    one = comparison()
    one.rungs = [Rung("phasemeter", 1024, None, "the ladder ended"), Rung("aiperf", 16, 32, "off")]
    one.rungs.append(Rung("vllm-bench", 256, 384, "off"))
    row = "| highest load with gap p99 within 1 ms, against {} | {} times | at least 5 times | {} |"

    assert row.format("aiperf", "64.0", "yes") in accuracy_text(one)
    assert row.format("vllm-bench", "4.0", "**no**") in accuracy_text(one)
    one.rungs[1] = Rung("aiperf", None, 16, "off")
    assert row.format("aiperf", "more than 64", "yes") in accuracy_text(one)
    assert "against aiperf" not in accuracy_text(comparison())


def with_floors(floor_s, resting_s):
    """30 us a token for the aiohttp loop; reading takes 5 us."""
    one = comparison()
    one.rounds.append(result("aiohttp-loop", load_cpu_s=0.03, gap_p99_ms=23.0, load_waits=60.0))
    one.rounds = [run for run in one.rounds if run.tool != "aiohttp-loop" or run.load_waits]
    parsed = Reported(parse_us=4.0, reading_us=5.0)
    for name, cpu_s in (("epoll-floor", floor_s), ("epoll-floor-1ms", resting_s)):
        one.rounds.append(
            Result(name, 64, 1, None, truth(), parsed, load_cpu_s=cpu_s, load_waits=500.0)
        )
    return one


def test_a_floor_above_the_budget_proves_that_it_cannot_be_met():
    text = accuracy_text(with_floors(0.014, 0.012))

    assert "| aiohttp-loop | 30.0 | 0.06 | 1.000 |" in text
    assert "| epoll-floor | 14.0 | 0.50 | \u2013 |" in text
    assert "together are 19.0 us, half of the aiohttp loop's is 15.0 us: the budget cannot" in text
    assert "The other 21.0 of phasemeter's 40.0 us" in text
    assert "takes the floor to 12.0 us" in text
    assert "without any pause: 40 us at 16, 40 us at 32 streams." in text


def test_a_floor_below_the_budget_says_what_is_left():
    text = accuracy_text(with_floors(0.008, 0.008))

    assert "all of the loop would have to cost 2.0 us a token" in text


def test_without_its_figures_nothing_is_said_of_the_floor():
    assert "## CPU time a token" not in accuracy_text(comparison())
    assert "## CPU time a token" in accuracy_text(with_floors(0.02, 0.02))


def test_the_floor_reads_everything_and_nothing_else(tmp_path):
    """A real run: twelve answers of ten tokens; its gaps are the server's."""
    bench = Bench(tmp_path, "ttft_ms=50,gap_ms=10", None, None, 60)
    one = bench.run(by_name("epoll-floor"), Size(users=4, requests=12, tokens=10), 1)

    assert one.failure is None
    assert (one.reported.requests, one.truth.token_events) == (12, 120)
    assert one.reported.gaps <= 108
    assert one.reported.parse_us > 0
    assert one.reported.reading_us > 0
    assert one.load_waits is None or one.load_waits > 0


def test_the_table_has_every_tool_once():
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        show(comparison(), console)
    text = console.export_text()

    for wanted in ("phasemeter 1.2", "other", "exit status 1", "no disk", "busy process"):
        assert text.count(wanted) >= 1


def test_the_page_fetches_nothing(tmp_path):
    write_page(comparison(), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()

    assert "<script src=" not in text
    assert "phasemeter" in text


def test_a_real_run_of_phasemeter_meets_the_truth(tmp_path):
    """A fresh server, the command line, the report: all twelve answers are counted and compared."""
    bench = Bench(tmp_path, "ttft_ms=50,gap_ms=10", None, None, 60)
    one = bench.run(by_name("phasemeter"), Size(users=4, requests=12, tokens=10), 1)

    assert one.failure is None
    assert (one.truth.requests, one.reported.requests) == (12, 12)
    assert one.truth.token_events == 120
    assert one.reported.gaps <= 108
    assert one.cpu_s > 0
    assert abs(one.error_ms("gap_max_ms")) < 20  # the same gaps, not tight wall-clock times


def test_a_tool_that_cannot_be_started_is_a_row_with_the_reason(tmp_path):
    bench = Bench(tmp_path, "", None, None, 10)
    one = bench.run(by_name("aiperf"), Size(1, 1, 2), 1)

    assert one.failure == "could not be started: No such file or directory"
