"""The set-up of real engines: used again, bounded, and with a reason where it fails."""

import re
import sys
import time
from pathlib import Path

import pytest

from benchmarks.peers.tool import UnavailableError
from tests.engines import environments, set_up
from tests.engines.environments import ALL, PROMETHEUS, Environment
from tests.engines.servers import free_port, serving


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return a maker of environments whose reasons stay in the test's folder."""
    monkeypatch.setattr(environments, "REASONS", tmp_path / "reasons")
    (tmp_path / "reasons").mkdir()

    def environment(install=lambda folder: None, needs_bytes=0):
        return Environment("thing", tmp_path / "thing", ("bin/thing",), needs_bytes, install)

    return environment


def put_program(folder):
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "thing").touch()


def test_what_is_not_there_says_how_to_get_it(make):
    assert make().missing() == "thing: not set up; `make engines` does it"


def test_what_was_installed_is_not_missing(make):
    environment = make(put_program)

    environment.have()

    assert environment.missing() is None
    assert environment.program("thing").is_file()


def test_a_reason_is_told_until_the_next_set_up(make):
    environment = make(put_program)
    environment.have()

    environment.reason_path.write_text("no luck\n")

    assert environment.missing() == "thing: no luck"


def test_without_space_nothing_is_begun(make):
    environment = make(put_program, needs_bytes=10**18)

    with pytest.raises(UnavailableError, match=r"needs 1000000000 GB of disk, [0-9.]+ GB are free"):
        environment.have()

    assert not environment.folder.exists()


def test_an_unknown_name_is_refused(capsys):
    assert set_up.main(["nonsense"]) == 2
    assert "nonsense: not known; accepted: vllm, phoenix, prometheus" in capsys.readouterr().err


def start_instead(monkeypatch, code):
    import subprocess

    def start(one):
        return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)

    monkeypatch.setattr(set_up, "_start", start)


def test_an_installation_that_takes_too_long_is_ended_with_the_reason(make, monkeypatch, capsys):
    environment = make()
    start_instead(monkeypatch, "import time; time.sleep(600)")
    before = time.monotonic()

    set_up.install_all([environment], 1)

    assert time.monotonic() - before < 60
    assert re.fullmatch(
        r"thing: its installation was ended after \d+ s of 1", environment.missing()
    )
    assert environment.missing() in capsys.readouterr().err


def test_an_installation_that_dies_leaves_a_reason(make, monkeypatch):
    environment = make()
    start_instead(monkeypatch, "raise SystemExit(7)")

    set_up.install_all([environment], 60)

    assert environment.missing() == "thing: its installation ended with status 7"


def test_no_engine_installs_outside_of_build():
    assert all(one.folder.is_relative_to(environments.BUILD) for one in ALL)


def test_another_processor_is_a_reason(monkeypatch):
    monkeypatch.setattr(environments.platform, "machine", lambda: "riscv64")

    with pytest.raises(UnavailableError, match="Linux on x86-64, this is"):
        environments.VLLM.install(Path("/nowhere"))


def test_a_system_without_debians_tools_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(environments.shutil, "which", lambda name: None)

    with pytest.raises(UnavailableError, match="no apt-get here"):
        PROMETHEUS.install(tmp_path / "prometheus")


def test_a_server_that_ends_at_once_fails_with_its_last_words(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit('no such model')"]
    url = f"http://127.0.0.1:{free_port()}/"

    with (
        pytest.raises(RuntimeError, match=r"ended with 1\nno such model"),
        serving(command, url, tmp_path / "log", timeout_s=60),
    ):
        pass


def test_a_server_and_what_it_started_are_gone_after_the_block(tmp_path):
    port = free_port()
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "import http.server\n"
        f"http.server.test(http.server.SimpleHTTPRequestHandler, port={port}, bind='127.0.0.1')\n"
    )

    with serving([sys.executable, "-c", code], f"http://127.0.0.1:{port}/", tmp_path / "log") as it:
        child = int((tmp_path / "log").read_text().split()[0])
        assert Path(f"/proc/{child}").exists() or sys.platform != "linux"

    assert it.returncode is not None
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}/cmdline").exists() and Path(f"/proc/{child}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
