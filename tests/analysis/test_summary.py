"""The summary document, against figures worked out by hand."""

import json

import pytest
from run_factory import issued_of, make_timeline, ns, write_run

from phasemeter.analysis.records import load_run
from phasemeter.analysis.summary import summarise, summarise_group
from phasemeter.core.timeline import Outcome
from phasemeter.metrics import BUILTIN

LONG = {"class": "long"}


@pytest.fixture
def run(tmp_path):
    """Two short ones, a long one with a stall, and one of each other ending.

    short a: started 0, sent 2, first 12, gaps 10 10 -> last 32
    short b: started 10, sent 10, first 30, gaps 10 10 -> last 50
    long c: started 0, sent 5, first 105, gaps 10 10 10 100 -> last 235
    """
    timelines = [
        make_timeline("a", start_ms=0, sent_ms=2, first_ms=12, gaps_ms=(10, 10), intended_ms=0),
        make_timeline("b", start_ms=10, first_ms=30, gaps_ms=(10, 10), intended_ms=4),
        make_timeline(
            "c", start_ms=0, sent_ms=5, first_ms=105, gaps_ms=(10, 10, 10, 100), tags=LONG
        ),
        make_timeline(
            "d", first_ms=500, gaps_ms=(900,), outcome=Outcome.ERROR, error_type="overloaded"
        ),
        make_timeline("e", end_ms=5, outcome=Outcome.ERROR, error_type="timeout"),
        make_timeline("f", end_ms=5, outcome=Outcome.ERROR, error_type="timeout"),
        make_timeline("g", first_ms=9, outcome=Outcome.TRUNCATED, tags=LONG),
        make_timeline("h", end_ms=5, outcome=Outcome.EMPTY),
        make_timeline("i", first_ms=9, outcome=Outcome.CANCELLED),
        make_timeline("j", first_ms=9, outcome=Outcome.ABANDONED),
    ]
    return load_run(write_run(tmp_path, timelines, still_running=[make_timeline("k", tags=LONG)]))


def test_requests_are_counted_by_outcome_and_add_up(run):
    """Issued = every outcome + in flight."""
    counts = summarise(run)["requests"]

    assert counts == {
        "issued": 11,
        "ok": 3,
        "error": 3,
        "truncated": 1,
        "empty": 1,
        "cancelled": 1,
        "abandoned": 1,
        "in_flight": 1,
    }
    assert counts["issued"] == sum(counts.values()) - counts["issued"]


def test_classes_have_their_own_counts(run):
    """The in-flight request belongs to the class it was issued with."""
    classes = summarise(run)["classes"]

    assert classes["long"]["requests"]["issued"] == 3
    assert classes["long"]["requests"]["in_flight"] == 1
    assert classes["short"]["requests"]["ok"] == 2


def test_latencies_are_over_ok_responses_only(run):
    """The erroneous response's 900 ms gap is in no percentile."""
    metrics = summarise(run)["metrics"]

    assert metrics["gap"]["count"] == 2 + 2 + 4
    assert metrics["gap"]["p50"] == pytest.approx(10, rel=1e-3)
    assert metrics["gap"]["max"] == pytest.approx(100, rel=1e-3)
    assert metrics["stall"]["count"] == 1


def test_golden_figures_of_a_class(run):
    """TTFT 12 and 20, on the wire 10 and 20, end to end 32 and 40, TPOT 10, response 12 and 26."""
    metrics = summarise(run)["classes"]["short"]["metrics"]

    expected = {
        "ttft": (2, 12, 20),
        "ttft_wire": (2, 10, 20),
        "ttft_response": (2, 12, 26),
        "e2e": (2, 32, 40),
        "decode": (2, 20, 20),
        "queue": (2, 0.001, 6),
    }
    for name, (count, p50, maximum) in expected.items():
        assert metrics[name]["count"] == count, name
        assert metrics[name]["p50"] == pytest.approx(p50, rel=1e-3), name
        assert metrics[name]["max"] == pytest.approx(maximum, rel=1e-3), name
    assert metrics["queue"]["clamped"] == 1


def test_every_built_in_metric_is_there_and_unknown_where_nothing_has_it(run):
    """No connect was seen: the metric is listed with count 0 and None."""
    summary = summarise(run)

    assert list(summary["metrics"]) == [metric.name for metric in BUILTIN]
    assert summary["metrics"]["connect"]["count"] == 0
    assert summary["metrics"]["connect"]["p99"] is None


def test_errors_are_counted_by_type_most_frequent_first(run):
    """Two timeouts, one overload."""
    assert list(summarise(run)["errors"].items()) == [("timeout", 2), ("overloaded", 1)]


def test_the_document_is_json_without_not_a_number(run):
    """A reader in any language can load it."""
    json.dumps(summarise(run), allow_nan=False)


def test_a_run_without_a_finished_request_still_reports(tmp_path):
    """Counts are told, metrics are None, and the verdict is invalid."""
    run = load_run(write_run(tmp_path, [], still_running=[make_timeline("a"), make_timeline("b")]))

    summary = summarise(run)

    assert summary["requests"]["in_flight"] == 2
    assert summary["metrics"]["ttft"]["p50"] is None
    assert summary["throughput"]["whole"] is None
    assert summary["stamp_source"] is None
    assert summary["validity"]["verdict"] == "invalid"
    assert summary["validity"]["reasons"] == ["no request ended ok (2 issued)"]


def test_coalesced_events_are_counted_and_have_no_gap(tmp_path):
    """Of 4 events one shares a read: 2 gaps, 1 coalesced."""
    timeline = make_timeline("a", first_ms=10, gaps_ms=(5, 0, 5), coalesced={2})

    summary = summarise(load_run(write_run(tmp_path, [timeline])))

    assert summary["coalesced_events"] == 1
    assert summary["metrics"]["gap"]["count"] == 2


@pytest.mark.parametrize(
    ("sources", "told"), [(["kernel", "kernel"], "kernel"), (["kernel", "recv"], "mixed")]
)
def test_stamp_source_is_one_or_mixed(tmp_path, sources, told):
    """One word says how the run was stamped."""
    timelines = [
        make_timeline(f"r{i}", first_ms=1, stamp_source=source) for i, source in enumerate(sources)
    ]

    assert summarise(load_run(write_run(tmp_path, timelines)))["stamp_source"] == told


def test_a_healthy_run_is_valid(tmp_path):
    """Nothing speaks against it."""
    timelines = [make_timeline("a", first_ms=10, gaps_ms=(5,))]

    assert summarise(load_run(write_run(tmp_path, timelines)))["validity"] == {
        "verdict": "valid",
        "reasons": [],
    }


def test_a_record_without_an_issued_line_makes_the_run_invalid(tmp_path):
    """Issued and accounted for must be equal."""
    path = write_run(tmp_path, [make_timeline("a", first_ms=10)])
    lines = (path / "records-0.jsonl").read_text().splitlines(keepends=True)
    (path / "records-0.jsonl").write_text(lines[0] + lines[2])

    validity = summarise(load_run(path))["validity"]

    assert validity["verdict"] == "invalid"
    assert validity["reasons"] == ["0 requests issued but 1 accounted for by outcome"]


def test_a_group_is_summarised_by_itself():
    """An arm of an experiment is summarised with the same code as a run."""
    timeline = make_timeline("a", first_ms=12)

    group = summarise_group([timeline], [issued_of(timeline)])

    assert group["requests"]["ok"] == 1
    assert group["metrics"]["ttft"]["max"] == pytest.approx(ns(12) / 1e6, rel=1e-3)
