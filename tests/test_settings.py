"""PHASEMETER_* variables: accepted values, and one line for the others."""

import json
import os

import httpx2
import pytest

import phasemeter
from phasemeter import sdk, settings
from phasemeter.core import errors
from phasemeter.testing import ScriptedReply, ScriptedServer, chat_events


@pytest.fixture(autouse=True)
def said_nothing_yet(monkeypatch):
    monkeypatch.setattr(errors, "_warned", set())


def test_nothing_set_is_nothing_asked_for():
    assert settings.from_environment({}) == settings.Settings()


@pytest.mark.parametrize(
    ("value", "flag"),
    [("1", True), ("TRUE", True), (" yes ", True), ("on", True), ("0", False), ("off", False)],
)
def test_flags(value, flag, caplog):
    names = (settings.DISABLED, settings.INJECT_USAGE, settings.PER_CHUNK_METRICS)
    got = settings.from_environment(dict.fromkeys(names, value))

    assert (got.disabled, got.inject_usage, got.per_chunk_metrics) == (flag, flag, flag)
    assert caplog.records == []


def test_the_other_variables():
    got = settings.from_environment(
        {
            settings.RECORDS: "run-{pid}.jsonl",
            settings.SEMCONV: "both",
            settings.METRIC_TAGS: "feature, tier,,",
        }
    )

    assert got.records == f"run-{os.getpid()}.jsonl"
    assert (got.semconv, got.metric_tags) == ("both", ("feature", "tier"))


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        (
            settings.DISABLED,
            "maybe",
            "PHASEMETER_DISABLED: 'maybe' is not known, off as if unset; accepted: "
            "1, true, yes, on, 0, false, no, off",
        ),
        (
            settings.PER_CHUNK_METRICS,
            "2",
            "PHASEMETER_PER_CHUNK_METRICS: '2' is not known, on as if unset; accepted: "
            "1, true, yes, on, 0, false, no, off",
        ),
        (
            settings.SEMCONV,
            "2.0",
            "PHASEMETER_SEMCONV: '2.0' is not known, 0.1.0 is used; accepted: 0.1.0, 1.41, both",
        ),
    ],
)
def test_a_bad_value_is_one_line_and_counts_as_unset(name, value, line, caplog):
    assert settings.from_environment({name: value}) == settings.Settings()
    settings.from_environment({name: value})

    assert [record.getMessage() for record in caplog.records] == [line]


@pytest.fixture
def fresh_default(monkeypatch):
    """The module functions as at the start of a process."""
    monkeypatch.setattr(sdk, "_default", None)
    sdk._configured_records.cache_clear()
    yield
    sdk._configured_records.cache_clear()


def request():
    body = {"model": "m", "stream": True}
    with ScriptedServer(ScriptedReply.of_events(chat_events(first_ms=1, gap_ms=1))) as server:
        with phasemeter.wrap(httpx2.Client()) as client:
            client.post(server.url + "/chat/completions", json=body)
        return server.served[0]


def test_records_are_written_where_the_variable_says(fresh_default, monkeypatch, tmp_path):
    """One file for the process, however many Meters are set up from the environment."""
    monkeypatch.setenv(settings.RECORDS, str(tmp_path / "records-{pid}.jsonl"))
    request()
    sdk.configured_sinks()
    sdk.default_meter().close()

    (path,) = tmp_path.iterdir()
    assert path.name == f"records-{os.getpid()}.jsonl"
    kinds = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(kinds) == 3  # header, issued, record


def test_a_path_that_cannot_be_written_is_one_line(fresh_default, monkeypatch, tmp_path, caplog):
    """And the application runs on, measured otherwise."""
    (tmp_path / "file").touch()
    monkeypatch.setenv(settings.RECORDS, str(tmp_path / "file" / "records.jsonl"))
    request()

    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("PHASEMETER_RECORDS: path: ")
    assert line.endswith("give a writable file")
    assert phasemeter.snapshot()["groups"]


def test_usage_is_asked_for_by_the_variable(fresh_default, monkeypatch):
    """An argument goes before it."""
    monkeypatch.setenv(settings.INJECT_USAGE, "1")
    assert b"include_usage" in request().body
    assert phasemeter.Meter([]).inject_usage
    assert not phasemeter.Meter([], inject_usage=False).inject_usage


def test_a_path_that_is_a_folder_is_one_line_too(fresh_default, monkeypatch, tmp_path, caplog):
    """The folder stays where it is."""
    monkeypatch.setenv(settings.RECORDS, str(tmp_path))
    request()

    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        f"PHASEMETER_RECORDS: path: {tmp_path} cannot be written (Is a directory); "
        f"give a writable file"
    )
    assert tmp_path.is_dir()
