"""The whole process tree is counted, and nothing of it is left."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measured_process import Sample, Usage, run_measured

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"


def measured(code, tmp_path, timeout_s=30):
    return run_measured(
        [sys.executable, "-c", code],
        tmp_path,
        environment={"SAID": "yes"},
        cpus=None,
        timeout_s=timeout_s,
    )


def test_cpu_time_of_grandchildren_counts(tmp_path):
    child = BURN.format(0.3)
    usage = measured(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])", tmp_path
    )

    assert usage.returncode == 0
    assert usage.cpu_s >= 0.3
    assert usage.peak_rss_bytes > 1_000_000


def test_orphans_are_ended_and_counted(tmp_path):
    """A process left behind is stopped, and what it used until then is in the sum."""
    child = BURN.format(0.3) + "print('burnt', flush=True)\ntime.sleep(600)"
    code = (
        "import subprocess, sys\n"
        f"one = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "one.stdout.readline()\nprint(one.pid, flush=True)\nimport os\nos._exit(3)"
    )
    usage = measured(code, tmp_path)
    pid = int((tmp_path / "stdout.txt").read_text())

    assert usage.returncode == 3
    assert usage.cpu_s >= 0.3
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_that_does_not_end_is_ended(tmp_path):
    usage = measured("import time\ntime.sleep(600)", tmp_path, timeout_s=0.5)

    assert usage.returncode is None
    assert usage.wall_s < 60


def test_other_children_are_left_alone(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "import time\ntime.sleep(600)"])
    try:
        usage = measured("import os\nprint(os.environ['SAID'])", tmp_path)

        assert other.poll() is None
        assert usage.returncode == 0
        assert (tmp_path / "stdout.txt").read_text() == "yes\n"
    finally:
        other.kill()
        other.wait()


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        run_measured(["/no/program"], tmp_path, environment={}, cpus=None, timeout_s=1)


def test_cpu_time_between_instants_is_interpolated():
    """At 10/s: 0.5 s in all by t = 15, 2.5 s by t = 25."""
    usage = Usage(0, 0, samples=[Sample(10, 0.0), Sample(20, 1.0), Sample(30, 4.0)])

    assert usage.cpu_between(15, 25) == pytest.approx(2.0)
    assert usage.cpu_between(5, 25) is None
