"""The servers' own figures as the terminal and the page show them."""

import io
import json

import pytest
from run_factory import make_timeline, write_run

from phasemeter.report.document import read_report
from phasemeter.report.page import render_page
from phasemeter.report.terminal import print_report
from phasemeter.telemetry.sample import ServerSample


@pytest.fixture(autouse=True)
def of_a_pipe(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # parallel test runs set it


def run_with(tmp_path, *samples):
    path = write_run(tmp_path, [make_timeline(first_ms=10, gaps_ms=(5,))])
    lines = (json.dumps(one.to_json()) for one in samples)
    (path / "server.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return read_report(path)


def shown(report):
    file = io.StringIO()
    print_report(report.run, report.summary, report.finding, file=file)
    return file.getvalue(), render_page(report.run, report.summary, report.finding)


def sample(moment, **values):
    return ServerSample(
        1, "separated", "inject", 1, moment, "decode", 0, flavour="vllm", values=values
    )


def test_a_row_a_condition_and_role(tmp_path):
    names = ("prompt_tokens", "kv_transfers", "kv_transfer_bytes")
    report = run_with(
        tmp_path,
        sample("start", **dict.fromkeys(names, 0.0)),
        sample("end", **dict(zip(names, (4_321.0, 7.0, 2.5e6), strict=True))),
    )

    text, page = shown(report)

    assert max(map(len, text.splitlines())) <= 100
    row = next(line for line in text.splitlines() if "separated/inject" in line).split()
    assert row[:3] == ["separated/inject", "decode", "4,321"]
    assert row[-2:] == ["7", "2.50"]
    assert "<td>separated/inject</td>" in page
    assert "4,321" in page


def test_a_server_without_metrics_is_told_with_its_reason(tmp_path):
    silent = ServerSample(1, "load", "load", 1, "start", "both", 0, reason="it has no page")

    text, page = shown(run_with(tmp_path, silent))

    assert "the servers' own metrics: none" in text
    assert "load, all: it has no page" in text
    assert "it has no page" in page


def test_what_should_not_have_happened_is_told(tmp_path):
    names = ("preemptions", "kv_transfers_failed", "prompt_tokens_computed", "prompt_tokens")
    report = run_with(
        tmp_path,
        sample("start", **dict.fromkeys(names, 0.0)),
        sample("end", **dict(zip(names, (3.0, 1.0, 2.0, 100.0), strict=True))),
    )

    text, _ = shown(report)

    for words in ("3 preemptions", "1 transfers failed", "2 prompt tokens worked out"):
        assert words in text
