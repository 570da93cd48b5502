"""Worker processes: what a run leaves behind when it ends, is interrupted or is killed."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress

import psutil
import pytest

from phasemeter.analysis.records import load_run
from phasemeter.analysis.summary import summarise
from phasemeter.core.errors import UsageError
from phasemeter.core.timeline import Outcome
from phasemeter.load import run_folder
from phasemeter.load.launch import WorkerFailedError, cpus_for, run_plan
from phasemeter.load.plan import Plan, UserFlow
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.testing import ScriptedReply, ScriptedServer, chat_events
from tests.load.conftest import ONE

ANSWER = ScriptedReply.of_events(chat_events(first_ms=20, gap_ms=5))


def target_at(url: str) -> Target:
    return Target("single", (parse_endpoint(url)[0],), RequestStyle("chat", "m"))


def plan_of(requests: int | None, *, users: int = 3, duration_s: float = 60.0) -> Plan:
    flow = UserFlow("u", (ONE,), users, 0.0, duration_s, max_requests=requests)
    return Plan((flow,), duration_s, 5.0, seed=1)


def test_two_workers_carry_out_one_plan_and_leave_complete_files(tmp_path):
    run_folder.write_manifest(tmp_path, "load", {"target": {}})
    seen = []
    with ScriptedServer(ANSWER) as server:
        run_plan(
            tmp_path,
            plan_of(20),
            target_at(server.url),
            workers=2,
            headers={"Authorization": "Bearer secret-key"},
            on_progress=lambda elapsed_s, totals: seen.append(totals),
        )
        assert len(server.served) == 20

    run = load_run(tmp_path)
    assert summarise(run)["requests"]["ok"] == len(run.issued) == 20
    assert {worker.ended for worker in run.workers} == {"done"}
    assert {path.name for path in tmp_path.glob("records-*")} == {
        "records-0.jsonl",
        "records-1.jsonl",
    }
    assert seen[-1].issued == seen[-1].ok == 20
    assert not any("secret-key" in path.read_text() for path in tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU affinity here")
def test_pinned_workers_keep_to_a_cpu_each(tmp_path):
    allowed = sorted(os.sched_getaffinity(0))
    workers = min(2, len(allowed))
    run_folder.write_manifest(tmp_path, "load", {"target": {}})
    seen: dict[int, set[int]] = {}
    others = set(children_of(os.getpid()))  # of tests that ran before in this process

    def look(elapsed_s, totals) -> None:
        for pid in set(children_of(os.getpid())) - others:
            with suppress(OSError):  # it has ended
                seen[pid] = os.sched_getaffinity(pid)

    with ScriptedServer(ANSWER) as server:
        run_plan(
            tmp_path,
            plan_of(8),
            target_at(server.url),
            workers=workers,
            cpus=cpus_for(workers),
            headers={},
            on_progress=look,
        )

    told = [
        json.loads(line)["cpu"] for line in (tmp_path / "workers.jsonl").read_text().splitlines()
    ]
    assert sorted(told) == allowed[:workers]
    assert {frozenset(cpus) for cpus in seen.values()} == {frozenset({cpu}) for cpu in told}


def test_more_pinned_workers_than_cpus_are_refused(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)

    assert cpus_for(2) == [3, 5]
    with pytest.raises(UsageError, match=r"--pin: 3 workers and 2 CPUs; accepted: "):
        cpus_for(3)


def test_pinning_is_refused_where_there_is_none(monkeypatch):
    """macOS has no such call."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)

    with pytest.raises(UsageError, match=r"--pin: .* cannot keep a process to a CPU"):
        cpus_for(1)


def test_workers_without_users_take_no_requests_away(tmp_path):
    """One user, three workers, ten requests: the user makes all ten, and none is missed."""
    run_folder.write_manifest(tmp_path, "load", {"target": {}})
    with ScriptedServer(ANSWER) as server:
        run_plan(tmp_path, plan_of(10, users=1), target_at(server.url), workers=3, headers={})

    summary = summarise(load_run(tmp_path))
    assert summary["requests"]["ok"] == 10
    assert summary["requests"]["issued"] == 10
    assert not [one for one in summary["validity"]["reasons"] if "accounted" in one]


def test_a_worker_that_cannot_work_is_told_in_one_line(tmp_path):
    (tmp_path / "records-0.jsonl").touch()

    with ScriptedServer(ANSWER) as server, pytest.raises(WorkerFailedError, match="records-0"):
        run_plan(tmp_path, plan_of(1), target_at(server.url), headers={})


def test_a_run_given_up_before_its_workers_are_ready_leaves_none_behind(tmp_path, monkeypatch):
    """The order to begin never comes; the workers end all the same, and write that they did."""

    def interrupted(crew, deadline_ns):
        crew._listen()
        raise KeyboardInterrupt

    monkeypatch.setattr("phasemeter.load.launch._Crew.await_ready", interrupted)
    run_folder.write_manifest(tmp_path, "load", {"target": {}})
    with ScriptedServer(ANSWER) as server:
        begun_ns = time.monotonic_ns()
        with pytest.raises(KeyboardInterrupt):
            run_plan(tmp_path, plan_of(10), target_at(server.url), headers={})
        assert server.served == []

    assert time.monotonic_ns() - begun_ns < 8e9  # a worker that hangs is killed only after 10 s


def test_requests_leave_on_time_however_slowly_a_worker_starts(tmp_path, monkeypatch):
    """The plan's origin is set when the workers are ready, not when they are started."""
    monkeypatch.setenv(
        "PYTHONPATH", f"{tmp_path / 'slow'}{os.pathsep}{os.environ.get('PYTHONPATH')}"
    )
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text("import time\ntime.sleep(1.5)\n")
    folder = tmp_path / "run"
    folder.mkdir()
    run_folder.write_manifest(folder, "load", {"target": {}})
    with ScriptedServer(ANSWER) as server:
        run_plan(folder, plan_of(3), target_at(server.url), headers={})

    first = min(
        timeline.started_ns - timeline.intended_ns for timeline in load_run(folder).timelines
    )
    assert first < 1e9


@pytest.fixture
def running(tmp_path):
    """A run in a process of its own, well under way; (process, folder)."""
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from phasemeter.load import run_folder
        from phasemeter.load.launch import run_plan
        from tests.load.test_launch import plan_of, target_at
        folder = Path(sys.argv[1])
        run_folder.write_manifest(folder, "load", {"target": {}})
        try:
            run_plan(folder, plan_of(None), target_at(sys.argv[2]), headers={})
        except KeyboardInterrupt:
            sys.exit(130)
    """)
    with ScriptedServer(ANSWER) as server:
        process = subprocess.Popen([sys.executable, "-c", script, tmp_path, server.url])
        deadline = time.monotonic() + 60
        while finished_lines(tmp_path) < 10:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process, tmp_path
        process.kill()
        process.wait()


def finished_lines(folder) -> int:
    return sum(
        line.startswith('{"id"')
        for path in folder.glob("records-*.jsonl")
        for line in path.read_text().splitlines()
    )


def workers_of(process) -> list[int]:
    return children_of(process.pid)


def children_of(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_measured_and_records_what_was_in_flight(running, number):
    process, folder = running
    process.send_signal(number)

    assert process.wait(30) == 130
    run = load_run(folder)
    counts = summarise(run)["requests"]
    assert counts["ok"] >= 10
    assert counts["in_flight"] == 0
    assert counts["issued"] == counts["ok"] + counts["cancelled"]
    assert [worker.ended for worker in run.workers] == ["interrupted"]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc")
def test_a_worker_stopped_from_outside_is_no_finished_run(running):
    process, folder = running
    (worker,) = workers_of(process)
    os.kill(worker, signal.SIGTERM)

    assert process.wait(30) == 1  # an uncaught WorkerFailedError in the script
    validity = summarise(load_run(folder))["validity"]
    assert validity["verdict"] == "suspect"
    assert any("interrupted" in reason for reason in validity["reasons"])


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc")
def test_a_killed_worker_leaves_a_run_that_can_be_reported(running):
    process, folder = running
    (worker,) = workers_of(process)
    os.kill(worker, signal.SIGKILL)

    assert process.wait(30) == 1  # an uncaught WorkerFailedError in the script
    counts = summarise(load_run(folder))["requests"]
    assert counts["ok"] >= 10
    assert counts["issued"] == counts["ok"] + counts["in_flight"]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc")
def test_workers_end_by_themselves_when_the_run_is_killed(running):
    process, folder = running
    (_worker,) = workers_of(process)
    process.kill()
    process.wait()

    deadline = time.monotonic() + 20
    while (folder / "workers.jsonl").exists() is False:
        assert time.monotonic() < deadline, "the orphaned worker goes on"
        time.sleep(0.05)
    report = json.loads((folder / "workers.jsonl").read_text())
    assert report["ended"] == "interrupted"
    run = load_run(folder)
    assert {t.outcome for t in run.timelines} <= {Outcome.OK, Outcome.CANCELLED}
