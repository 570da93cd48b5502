"""The GPU run's processes: servers that fail, commands that are ended, results that are kept."""

import json
import os
import stat
import sys
import tarfile
import time

import pytest

from benchmarks.gpu import run
from benchmarks.gpu.backends import Deployment, Server
from benchmarks.gpu.commands import Ended, run_phasemeter
from benchmarks.gpu.environment import NoInterpreterError, look_into
from benchmarks.gpu.hardware import NoGpuError, gpus_now, machine, recording
from benchmarks.gpu.model import SMALL
from benchmarks.gpu.results import Results
from benchmarks.gpu.servers import NotReadyError, free_ports, serving
from benchmarks.gpu.time_plan import SIZES, Wanted, time_plan
from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.testing.truth.launch import running_truth_server

LINE = "0, NVIDIA H200, 580.1, 143771, 9, 1980, 1980, 3201, 412.3, 700.0, 98, 54"


def in_s(seconds):
    return now_ns() + round(seconds * NS_PER_S)


def truth(port):
    """A paced server in the place of an engine."""
    command = [sys.executable, "-m", "phasemeter.testing.truth", "--port", str(port)]
    pacing = ["--pacing", "ttft_ms=30,gap_ms=10", "--model", "m"]
    return Server("truth", f"http://127.0.0.1:{port}", "m", (*command, *pacing))


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """A program of that name that prints one GPU, over and over where that is asked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys, time\n"
        f"line = {LINE!r}\n"
        "while any(word.startswith('--loop') for word in sys.argv):\n"
        "    print(time.strftime('%Y/%m/%d %H:%M:%S.000,'), line, flush=True)\n"
        "    time.sleep(0.05)\n"
        "print(line)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return program


def test_a_server_that_ends_is_told_with_its_last_words(tmp_path):
    server = Server(
        "s", "http://127.0.0.1:9", "m", (sys.executable, "-c", "raise SystemExit('no')")
    )

    with (
        pytest.raises(NotReadyError, match=r"s ended with 1\nno"),
        serving([server], tmp_path, end_ns=in_s(60)),
    ):
        pytest.fail("it is not ready")


def test_a_server_that_does_not_answer_is_ended_at_its_time(tmp_path):
    (port,) = free_ports(1)
    pid_path = tmp_path / "pid"
    program = (
        f"import os,time,pathlib; pathlib.Path({str(pid_path)!r}).write_text(str(os.getpid()))"
    )
    server = Server(
        "s", f"http://127.0.0.1:{port}", "m", (sys.executable, "-c", f"{program}; time.sleep(99)")
    )
    begun = time.monotonic()

    with (
        pytest.raises(NotReadyError, match="did not answer in time"),
        serving([server], tmp_path, end_ns=in_s(3)),
    ):
        pytest.fail("it is not ready")

    assert time.monotonic() - begun < 60
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_path.read_text()), 0)


def test_a_command_is_interrupted_at_its_end_and_reports_what_it_has(tmp_path):
    with running_truth_server(tmp_path / "truth.jsonl", "ttft_ms=20,gap_ms=5") as url:
        ended = run_phasemeter(
            [
                *("load", url, "--users", "2", "--duration", "90s", "--mix", "a=100%:8/8"),
                *("-o", str(tmp_path / "run"), "--json"),
            ],
            tmp_path / "load.log",
            end_ns=in_s(75),
            grace_s=60,
        )

    assert ended.status == "interrupted"
    assert ended.returncode == 130
    assert ended.document["requests"]["ok"] > 0
    assert ended.seconds < 75


def test_a_command_that_fails_says_why(tmp_path):
    ended = run_phasemeter(
        ["report", str(tmp_path / "none"), "--json"], tmp_path / "x.log", end_ns=in_s(60)
    )

    assert (ended.status, ended.returncode, ended.document) == ("failed", 2, None)
    assert "is not there" in ended.said


def planned(arms=("mixed",)):
    wanted = (Wanted("fifo", "inject"), Wanted("fifo", "mix"))
    return time_plan(300, wanted, arms=arms, sizes=SIZES["small"], start_s=10)


def measured(status="done"):
    document = {"verdict": {"kind": "none", "text": "."}, "factors": {}, "exposures": [1] * 1000}
    return Ended(status, 0, 12.0, document, "")


def test_results_are_whole_after_every_step(tmp_path, capsys):
    results = Results(tmp_path, "cpu", SMALL, {"python": "3.12"}, machine([]), 300)
    plan = planned()
    results.planned("transformers", plan)
    assert json.loads(results.path.read_text())["plan"]["parts"][0]["part"] == "fifo/inject"

    results.measured(plan.parts[0], measured(), "fifo-inject", now_ns(), now_ns())
    document = json.loads(results.path.read_text())
    assert document["parts"][0]["measured"]["verdict"]["kind"] == "none"
    assert "exposures" not in document["parts"][0]["measured"]
    assert not results.is_complete()

    results.measured(plan.parts[1], measured("interrupted"), "fifo-mix", now_ns(), now_ns())
    assert not results.is_complete()
    assert "fifo/mix: interrupted after 12 s, none" in capsys.readouterr().out


def test_a_killed_part_is_told_from_its_report(tmp_path):
    results = Results(tmp_path, "cpu", SMALL, {}, machine([]), 300)
    plan = planned()
    results.planned("vllm", plan)
    reported = {"requests": {"ok": 3}, "interference": {"verdict": {"kind": "invalid", "text": ""}}}

    results.measured(
        plan.parts[0], Ended("killed", -9, 30.0, reported, ""), "run", now_ns(), now_ns()
    )

    kept = json.loads(results.path.read_text())["parts"][0]["measured"]
    assert kept["verdict"]["kind"] == "invalid"
    assert kept["requests"] == {"ok": 3}


def test_gpus_are_sampled_while_a_part_is_measured(tmp_path, nvidia_smi):
    assert gpus_now()[0].name == "NVIDIA H200"
    results = Results(tmp_path, "cuda", SMALL, {}, machine(gpus_now()), 300)
    plan = planned()
    results.planned("vllm", plan)
    begun_ns = now_ns()
    with recording(tmp_path / "gpu.csv"):
        deadline = time.monotonic() + 30
        while (tmp_path / "gpu.csv").read_bytes().count(b"\n") < 25:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    results.measured(plan.parts[0], measured(), "run", begun_ns, now_ns())

    results.close(begun_ns, tmp_path / "gpu.csv")

    document = json.loads(results.path.read_text())
    (told,) = document["parts"][0]["gpus"]
    assert told["power_w_mean"] == 412.3
    assert told["samples"] >= 1
    assert document["machine"]["gpus"][0]["memory_total_mib"] == 143771


def test_without_a_gpu_nothing_is_started(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert run.main(["--output", str(tmp_path / "out")]) == 2
    assert "nvidia-smi does not answer" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(NoGpuError), recording(tmp_path / "gpu.csv"):
        gpus_now()
    assert not (tmp_path / "gpu.csv").exists()


def test_an_interpreter_without_a_server_is_refused(tmp_path, capsys):
    usual = ["--device", "cpu", "--shape", "small"]
    assert run.main([*usual, "--backend", "vllm", "--output", str(tmp_path / "out")]) == 2
    assert "cannot import vllm" in capsys.readouterr().err
    with pytest.raises(NoInterpreterError, match="does not tell"):
        look_into(str(tmp_path / "python"))
    assert look_into(sys.executable).versions["python"].startswith("3.")


def test_measured_folders_are_not_written_over(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run, "choose", lambda wanted, importable: ["transformers"])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.json").write_text("{}")

    assert run.main(["--device", "cpu", "--output", str(tmp_path / "out")]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_server_that_does_not_come_up_is_a_result(tmp_path, monkeypatch, capsys):
    """The next backend is tried; both reasons are kept, and the archive is written."""

    def broken(*arguments, **options):
        server = Server("s", "http://127.0.0.1:9", "m", (sys.executable, "-c", "1 / 0"))
        return Deployment((server,), {"x": ()}, ("mixed",), (Wanted("x", "mix"),), 30.0, "")

    monkeypatch.setattr(run, "choose", lambda wanted, importable: ["vllm", "transformers"])
    monkeypatch.setattr(run, "transformers_deployment", broken)
    monkeypatch.setattr(run, "vllm_deployment", broken)

    status = run.main(
        [
            *("--device", "cpu", "--shape", "small", "--output", str(tmp_path / "out")),
            *("--archive", str(tmp_path / "out.tar.gz")),
        ]
    )

    assert status == 1
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [one["what"] for one in document["could_not"]] == ["vllm", "transformers"]
    assert "ZeroDivisionError" in document["could_not"][0]["reason"]
    with tarfile.open(tmp_path / "out.tar.gz") as packed:
        assert "out/results.json" in packed.getnames()
        assert not any("/model" in name for name in packed.getnames())


@pytest.mark.lab
@pytest.mark.timeout(240)
def test_a_whole_run_on_a_paced_server(tmp_path, monkeypatch):
    """Only the server is not the real one: plan, probe, one part, results, archive."""
    (port,) = free_ports(1)

    def paced(*arguments, **options):
        options = ("--mixed", f"http://127.0.0.1:{port}/v1", "--model", "m")
        wanted = (Wanted("x", "mix"), Wanted("x", "ramp-long"))
        return Deployment((truth(port),), {"x": options}, ("mixed",), wanted, 30.0, "alone")

    monkeypatch.setattr(run, "choose", lambda wanted, importable: ["transformers"])
    monkeypatch.setattr(run, "transformers_deployment", paced)

    status = run.main(
        [
            *("--device", "cpu", "--shape", "small", "--budget", "130"),
            *("--output", str(tmp_path / "out"), "--archive", str(tmp_path / "out.tar.gz")),
        ]
    )

    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert status == 0, document
    (part,) = document["parts"]
    assert (part["target"], part["part"], part["status"]) == ("x", "mix", "done")
    assert document["plan"]["left_out"] == ["x/ramp-long"]
    assert document["rates"]["long_ttft_ms"] == pytest.approx(30, abs=25)
    assert document["total_s"] < 130
    assert "mixed/together" in part["measured"]["arms"]
    assert (tmp_path / "out" / part["page"]).stat().st_size > 1_000_000
    assert str(tmp_path) not in json.dumps(document)
