"""Record files: the shared format, flushed, rotated, bounded."""

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from phasemeter.core.errors import UsageError
from phasemeter.core.record import SCHEMA_VERSION, parse_issued, parse_record
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.core.token_events import TokenEvent
from phasemeter.sinks import RequestInfo
from phasemeter.sinks.records import RecordSink


def info(request_id="r"):
    return RequestInfo(
        request_id=request_id,
        dialect="openai.chat",
        operation="chat",
        provider="openai",
        model="m",
        server_address="h",
        server_port=80,
        started_ns=5,
        streamed=True,
        tags={"feature": "a"},
    )


def timeline(request_id="r"):
    return Timeline(
        request_id=request_id,
        dialect="openai.chat",
        operation="chat",
        model="m",
        stamp_source="recv",
        started_ns=5,
        ended_ns=90,
        outcome=Outcome.OK,
        events=(TokenEvent(50, "content", None, 0), TokenEvent(70, "content", 2, 1)),
        tags={"feature": "a"},
    )


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_file_holds_a_header_then_issued_and_record_lines(tmp_path):
    """And reads back as it was measured."""
    path = tmp_path / "made" / "records.jsonl"
    sink = RecordSink(path, about={"app": "x"})
    sink.started(info())
    sink.finished(timeline(), None)
    sink.close()

    header, issued, record = lines(path)

    assert header["phasemeter_records"] == SCHEMA_VERSION
    assert header["app"] == "x"
    assert set(header["anchor"]) == {"monotonic_ns", "unix_ns"}
    assert parse_issued(issued).request_id == "r"
    assert parse_record(record) == timeline()


def test_files_are_rotated_and_bounded(tmp_path):
    """Each begins with a header, none exceeds the bound, the oldest go."""
    path = tmp_path / "records.jsonl"
    sink = RecordSink(path, max_bytes=1500, keep=2)
    for number in range(40):
        sink.finished(timeline(f"r{number}"), None)
    sink.close()

    files = sorted(tmp_path.iterdir())
    assert [one.name for one in files] == ["records.jsonl", "records.jsonl.1", "records.jsonl.2"]
    kept = []
    for one in reversed(files):
        assert one.stat().st_size <= 1500
        header, *records = lines(one)
        assert "phasemeter_records" in header
        kept += [record["id"] for record in records]
    assert kept == [f"r{number}" for number in range(40 - len(kept), 40)]


def test_a_line_longer_than_the_bound_is_written_whole(tmp_path):
    """Nothing is lost to a small bound."""
    sink = RecordSink(tmp_path / "r", max_bytes=10, keep=0)
    sink.finished(timeline("a"), None)
    sink.finished(timeline("b"), None)
    sink.close()

    assert [line.get("id") for line in lines(tmp_path / "r")] == [None, "b"]


def test_an_old_file_is_kept_aside(tmp_path):
    """A second process run does not overwrite the first one's records."""
    path = tmp_path / "records.jsonl"
    for name in ("first", "second"):
        sink = RecordSink(path)
        sink.finished(timeline(name), None)
        sink.close()

    assert lines(tmp_path / "records.jsonl.1")[1]["id"] == "first"
    assert lines(path)[1]["id"] == "second"


def test_a_write_flushes_when_the_last_flush_is_a_second_old(tmp_path, monkeypatch):
    """Readable up to the last second without a close."""
    now = [0]
    monkeypatch.setattr("phasemeter.sinks.records.now_ns", lambda: now[0])
    path = tmp_path / "records.jsonl"
    sink = RecordSink(path)
    sink.finished(timeline("a"), None)
    assert path.read_text() == ""

    now[0] = 1_000_000_000
    sink.finished(timeline("b"), None)

    assert [line.get("id") for line in lines(path)] == [None, "a", "b"]
    sink.close()


def test_nothing_is_written_after_close(tmp_path):
    """A late response does not fail."""
    sink = RecordSink(tmp_path / "r")
    sink.close()
    sink.finished(timeline(), None)
    sink.close()

    assert len(lines(tmp_path / "r")) == 1


def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path):
    """One clear line, at construction."""
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"path: .* cannot be written \(.*give a writable file"):
        RecordSink(tmp_path / "file" / "records.jsonl")


@pytest.mark.parametrize("bad", [{"max_bytes": 0}, {"keep": -1}])
def test_bounds_are_checked(bad, tmp_path):
    """The line names the field."""
    with pytest.raises(UsageError, match=next(iter(bad))):
        RecordSink(tmp_path / "r", **bad)


def test_a_rotation_that_fails_loses_no_record(tmp_path, monkeypatch):
    """The file cannot be renamed for a while: it grows on, and rotates when it can again."""
    sink = RecordSink(tmp_path / "r.jsonl", max_bytes=2_000, keep=10)
    replace, failures = Path.replace, []

    def sometimes(self, target):
        if len(failures) < 3:
            failures.append(target)
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", sometimes)
    for number in range(40):
        with suppress(OSError):  # a Meter guards its sinks
            sink.finished(timeline(str(number)), None)
    sink.close()

    lines = "".join(path.read_text() for path in tmp_path.iterdir()).splitlines()
    assert len(failures) == 3
    assert len(list(tmp_path.iterdir())) > 2
    assert sum(line.startswith('{"id"') for line in lines) == 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_writes_its_own_file_and_repeats_nothing(tmp_path):
    """A pre-forking server loads the application, and the sink with it, before it forks."""
    sink = RecordSink(tmp_path / "r.jsonl")
    sink.finished(timeline("parent"), None)
    child = os.fork()
    if child == 0:
        sink.finished(timeline("child"), None)
        sink.close()
        os._exit(0)
    os.waitpid(child, 0)
    sink.close()

    ids = {
        path.name: [json.loads(line).get("id") for line in path.read_text().splitlines()]
        for path in tmp_path.iterdir()
    }
    assert ids == {"r.jsonl": [None, "parent"], f"r.jsonl-{child}": [None, "child"]}
