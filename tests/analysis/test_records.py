"""Reading run folders, whole and damaged."""

import json

import pytest
from run_factory import ANCHOR, issued_of, make_timeline, worker_end, write_run

from phasemeter.analysis.records import Mark, load_run
from phasemeter.core.clock import WallAnchor
from phasemeter.core.errors import UsageError
from phasemeter.core.record import header_line, issued_line, record_line


def test_a_written_run_is_read_back_whole(tmp_path):
    """Timelines, issued requests, marks and worker ends come back as they were written."""
    done = make_timeline("a", first_ms=10, gaps_ms=(5, 5))
    running = make_timeline("b", start_ms=3)
    mark = {
        "arm": "mixed",
        "condition": "inject",
        "repeat": 2,
        "phase": "baseline",
        "start_ns": 5,
        "end_ns": 9,
    }

    run = load_run(write_run(tmp_path, [done], still_running=[running], marks=[mark]))

    assert run.timelines == (done,)
    assert [request.request_id for request in run.issued] == ["a", "b"]
    assert run.marks == (Mark("mixed", "inject", 2, "baseline", 5, 9),)
    assert run.workers[0].loop_lag_ns == (100_000, 500_000, 1_000_000)
    assert (run.record_files, run.unreadable_lines) == (1, 0)


@pytest.mark.parametrize("kept_share", [0.02, 0.3, 0.5, 0.9, 0.999])
def test_a_file_cut_anywhere_keeps_every_whole_line(tmp_path, kept_share):
    """kill -9 in the middle of a line loses that line and nothing else, and is no damage."""
    timelines = [make_timeline(f"r{i}", first_ms=10, gaps_ms=(5,) * 20) for i in range(5)]
    path = write_run(tmp_path, timelines) / "records-0.jsonl"
    kept = path.read_bytes()[: int(path.stat().st_size * kept_share)]
    path.write_bytes(kept)

    run = load_run(tmp_path)

    whole_lines = kept.count(b"\n")
    assert len(run.issued) + len(run.timelines) == max(whole_lines - 1, 0)
    assert run.unreadable_lines == 0


@pytest.mark.parametrize(
    "line",
    ['{"id": "x"}', "not json", "[1, 2]", '{"neither": 1}', '{"issued": 3, "started_ns": 1}'],
)
def test_a_whole_line_that_is_no_record_is_counted(tmp_path, line):
    """A damaged line is skipped and counted; the lines after it are still read."""
    good = make_timeline("late", first_ms=1)
    write_run(tmp_path, [make_timeline("early", first_ms=1)], tail=f"{line}\n")
    other = write_run(tmp_path / "other", [good])
    (other / "records-0.jsonl").rename(tmp_path / "records-1.jsonl")

    run = load_run(tmp_path)

    assert [timeline.request_id for timeline in run.timelines] == ["early", "late"]
    assert run.unreadable_lines == 1


def test_records_with_truncated_event_runs_are_counted_not_raised(tmp_path):
    """A record whose parts contradict each other is one unreadable line."""
    events = {"first_ns": 1, "deltas_ns": [1, 1], "kinds": [["content", 1]], "tokens": [[1, 3]]}
    record = {"id": "x", "dialect": "d", "operation": "chat", "stamp_source": "kernel"}
    record |= {"outcome": "ok", "started_ns": 0, "ended_ns": 5, "events": events}

    run = load_run(write_run(tmp_path, [], tail=json.dumps(record) + "\n"))

    assert run.unreadable_lines == 1


def test_a_run_killed_at_once_is_read(tmp_path):
    """A folder with a manifest alone is a run without anything in it."""
    write_run(tmp_path, [], workers=[])
    (tmp_path / "records-0.jsonl").unlink()

    run = load_run(tmp_path)

    assert (run.timelines, run.issued, run.workers, run.record_files) == ((), (), (), 0)


def test_worker_ends_may_say_nothing_of_their_lag(tmp_path):
    """What a worker did not measure is None."""
    silent = worker_end() | {"loop_lag_ns": None, "cpu_s": None}

    run = load_run(write_run(tmp_path, [], workers=[silent]))

    assert run.workers[0].loop_lag_ns is None
    assert run.workers[0].cpu_s is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "holds no run.json"),
        ("{", "cannot be read"),
        ("[]", "no schema number"),
        ('{"kind": "load"}', "no schema number"),
        ('{"schema": 2}', "schema 2, this phasemeter reads up to 1"),
    ],
)
def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path, content, told):
    """The message says what is wrong with the folder."""
    if content is not None:
        (tmp_path / "run.json").write_text(content)

    with pytest.raises(UsageError, match=told) as caught:
        load_run(tmp_path)

    assert "\n" not in str(caught.value)


def test_a_missing_folder_is_refused(tmp_path):
    """The message names the path."""
    with pytest.raises(UsageError, match="nowhere is not there"):
        load_run(tmp_path / "nowhere")


def test_newer_record_files_are_refused(tmp_path):
    """Reading a newer schema as if it were ours could give wrong figures."""
    write_run(tmp_path, [])
    (tmp_path / "records-0.jsonl").write_text('{"phasemeter_records": 2}\n')

    with pytest.raises(UsageError, match=r"records-0\.jsonl has schema 2"):
        load_run(tmp_path)


def test_the_record_file_of_an_application_can_be_read_with_its_older_ones(tmp_path):
    """RecordSink writes no run folder: FILE, FILE.1, FILE.2 are read oldest first."""
    for name, request_id in (("app.jsonl.2", "a"), ("app.jsonl.1", "b"), ("app.jsonl", "c")):
        timeline = make_timeline(request_id, first_ms=10, gaps_ms=(5,))
        lines = (header_line(ANCHOR, {}), issued_line(issued_of(timeline)), record_line(timeline))
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    (tmp_path / "app.jsonl.bak").write_text("not ours")

    run = load_run(tmp_path / "app.jsonl")

    assert [timeline.request_id for timeline in run.timelines] == ["a", "b", "c"]
    assert len(run.issued) == 3
    assert run.manifest["kind"] == "records"
    assert run.unreadable_lines == 0


def test_a_file_that_is_no_record_file_is_refused(tmp_path):
    """It would else be reported on as a run without requests."""
    (tmp_path / "notes.txt").write_text("hello\n")

    with pytest.raises(UsageError, match="no record file"):
        load_run(tmp_path / "notes.txt")


def test_record_files_of_two_boots_are_put_on_one_clock(tmp_path):
    """The machine was restarted an hour later: the monotonic clock began anew."""
    hour_ns = 3_600 * 10**9
    first, second = make_timeline("a", first_ms=10), make_timeline("b", first_ms=10)
    later = WallAnchor(ANCHOR.monotonic_ns, ANCHOR.unix_ns + hour_ns)
    for name, anchor, timeline in (("app.1", ANCHOR, first), ("app", later, second)):
        lines = (header_line(anchor, {}), record_line(timeline))
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))

    run = load_run(tmp_path / "app")

    assert run.timelines[1].started_ns - run.timelines[0].started_ns == hour_ns
    # Their starts were in a file that is gone; they were issued all the same.
    assert [request.request_id for request in run.issued] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        "[" * 200_000,
        '{"id": "x", "started_ns": null}',
        '{"issued": "x", "started_ns": 1, "tags": null}',
        '{"issued": "x", "started_ns": 1, "tags": {"class": 7}}',
    ],
)
def test_damaged_lines_are_counted_and_hold_nothing_up(tmp_path, line):
    """Each is a lost record, told as such."""
    path = write_run(tmp_path, [make_timeline("a", first_ms=10)])
    with (path / "records-0.jsonl").open("a") as file:
        file.write(line + "\n")

    run = load_run(path)

    assert run.unreadable_lines == 1
    assert len(run.timelines) == 1
