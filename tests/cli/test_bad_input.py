"""Bad input gets one clear line, exit status 2, and leaves nothing half-written."""

import os
import socket
import subprocess
import sys

import pytest

from phasemeter.testing import ScriptedRead, ScriptedReply, ScriptedServer


def phasemeter(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "phasemeter", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


def assert_refused(result, *words):
    lines = result.stderr.strip().splitlines()
    assert result.returncode == 2, result.stderr
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("phasemeter: ")
    for word in words:
        assert word in lines[0]
    assert result.stdout == ""


@pytest.fixture(scope="module")
def server():
    """Answers every request like a server that lists one model and completes anything."""
    body = b'{"data": [{"id": "m"}], "choices": [], "usage": {"prompt_tokens": 8}}'
    headers = (("content-type", "application/json"),)
    reply = ScriptedReply([ScriptedRead(0, (body,))], headers=headers, framing="length")
    with ScriptedServer(reply) as running:
        yield running


@pytest.fixture
def dead_url():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


LOAD = ("load", "http://127.0.0.1:9/v1", "--users", "2", "--duration", "1s")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*LOAD, "--mix", "nonsense"), ("--mix", "'nonsense'", "accepted")),
        ((*LOAD, "--mix", "a=50%:1/1"), ("--mix", "50.0%", "100 %")),
        ((*LOAD, "--rate", "3"), ("--users, --rate", "exactly one")),
        (("load", "http://127.0.0.1:9/v1", "--duration", "1s"), ("--users, --rate",)),
        (("load", "http://127.0.0.1:9/v1", "--users", "1"), ("--duration, --requests",)),
        (("load", "http://127.0.0.1:9/v1", "--users", "0"), ("--users", "0")),
        ((*LOAD[:-1], "soon"), ("--duration", "'soon'", "60s")),
        ((*LOAD, "--stamps", "yield"), ("--stamps", "yield", "recv")),
        ((*LOAD, "--calibrated-by", "no-such-run"), ("no-such-run", "is not there")),
        (
            ("calibrate", "http://127.0.0.1:9/v1", "--prompt-tokens", "64,128"),
            ("--prompt-tokens", "64,128", "at least 6"),
        ),
        (("calibrate", "http://127.0.0.1:9/v1", "--streams", "0,1"), ("--streams", "'0,1'")),
        (("calibrate", "http://127.0.0.1:9/v1", "--repeats", "3"), ("--repeats", "3", "5")),
        (("calibrate",), ("URL",)),
        ((*LOAD, "--workers", "256", "--pin"), ("--pin", "256 workers")),
        (("load", "http+unix://relative.sock/v1", *LOAD[2:]), ("URL", "%2Fpath%2Fof%2Fsocket")),
        (("load", "http+unix:///run/a.sock", *LOAD[2:]), ("URL", "http+unix://%2F")),
        (("load", "http://h/a b", *LOAD[2:]), ("URL", "that no request can have")),
        ((*LOAD, "--header", "no colon"), ("--header", "Name: value")),
        ((*LOAD, "--api-key-env", "NOT_SET_ANYWHERE"), ("--api-key-env", "NOT_SET_ANYWHERE")),
        (("load", "nonsense", *LOAD[2:]), ("URL", "'nonsense'", "http[s]://")),
        (("load",), ("URL",)),
        (("nonsense",), ("nonsense",)),
        (("interference",), ("--lab", "--mixed")),
        (("interference", "--lab", "--mixed", "http://h/v1"), ("--lab",)),
        (("interference", "--lab", "--conditions", "inject,x"), ("--conditions", "'x'", "mix")),
        (("interference", "--lab", "--conditions", ""), ("--conditions", "''")),
        (("interference", "--lab", "--inject-tokens", "many"), ("--inject-tokens", "512")),
        (("interference", "--lab", "--ramp-users", "1,two"), ("--ramp-users", "'1,two'", "1,2,4")),
        (("interference", "--lab", "--ramp-users", "0,4"), ("--ramp-users", "'0,4'")),
        (("interference", "--lab", "--ramp-mix", "a=50%:1/1"), ("--ramp-mix", "100 %")),
        (("interference", "--lab", "--background-users", "0,4"), ("--background-users", "1,4,8")),
        (("interference", "--lab", "--inject-together", "2,2"), ("--inject-together", "1,4")),
        (("interference", "--lab", "--mix", "a=100%:1/1"), ("--mix", "two")),
        (("interference", "--separated", "prefill=http://h"), ("--separated", "decode=URL")),
        (("interference", "--separated", "x=http://h"), ("--separated", "'x=http://h'")),
        (("plan",), ("URL, --lab", "exactly one")),
        (("plan", "http://h/v1", "--lab"), ("URL, --lab", "exactly one")),
        (("plan", "--lab", "--mix", "nonsense"), ("--mix", "'nonsense'")),
        (("plan", "--lab", "--gpus", "3", "--gpus-per-instance", "2"), ("--gpus", "multiple of 2")),
        (("plan", "http://h", "--separated", "prefill=http://h"), ("--separated", "decode=URL")),
        (("plan", "--separated", "prefill=http://h,decode=http://h"), ("URL", "whole requests")),
        (("report", "no-such-folder"), ("no-such-folder", "is not there")),
        (("lab", "serve", "--policy", "best"), ("--policy", "mixed")),
        (("lab", "serve", "--cpu", "4000"), ("cpu", "4000")),
        (("lab", "serve", "--policy", "chunked", "--token-budget", "2"), ("token_budget",)),
    ],
)
def test_what_is_wrong_is_said_with_what_is_accepted(arguments, words, tmp_path):
    result = phasemeter(*arguments, cwd=tmp_path)

    assert_refused(result, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("load", "{}"), ("interference", "--mixed", "{}")])
def test_a_dead_url_is_told_before_anything_is_written(command, dead_url, tmp_path):
    arguments = [word.format(dead_url) for word in command]
    if command[0] == "load":
        arguments += LOAD[2:]

    result = phasemeter(*arguments, "-o", tmp_path / "run", cwd=tmp_path)

    assert_refused(result, dead_url, "refused")
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_does_not_exist_is_told(tmp_path):
    result = phasemeter("load", "http://no-such-host.invalid/v1", *LOAD[2:], cwd=tmp_path)

    assert_refused(result, "no-such-host.invalid")


@pytest.mark.parametrize("proxy", ["socks5://user:pa55@p:1080", "http://user:pa55@p:none"])
def test_a_proxy_that_cannot_be_used_is_told_without_its_password(proxy, tmp_path):
    result = phasemeter(
        "load", "http://engine.invalid/v1", *LOAD[2:], cwd=tmp_path, ALL_PROXY=proxy
    )

    assert_refused(result, "ALL_PROXY", "NO_PROXY")
    assert "pa55" not in result.stderr


def test_a_server_that_is_none_is_told(tmp_path):
    with ScriptedServer(ScriptedReply([], status=500)) as broken:
        result = phasemeter("load", broken.url, "--model", "m", *LOAD[2:], cwd=tmp_path)

    assert_refused(result, broken.url, "HTTP 500")


@pytest.mark.parametrize("place", ["file", "full"])
def test_a_folder_that_cannot_be_used_is_told_before_the_load(server, tmp_path, place):
    folder = tmp_path / "run"
    if place == "file":
        folder.write_text("in the way")
    else:
        folder.mkdir()
        (folder / "old").touch()

    result = phasemeter("load", server.url, *LOAD[2:], "-o", folder, cwd=tmp_path)

    assert_refused(result, str(folder), "accepted")
    assert not (folder / "run.json").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_told_before_the_load(server, tmp_path):
    tmp_path.chmod(0o500)

    result = phasemeter("load", server.url, *LOAD[2:], "-o", tmp_path / "run")

    tmp_path.chmod(0o700)
    assert_refused(result, "cannot be written")


def test_a_place_below_a_device_is_told_even_to_root(server):
    result = phasemeter("load", server.url, *LOAD[2:], "-o", "/dev/null/run")

    assert_refused(result, "/dev/null/run", "cannot be written")


def test_a_run_that_is_none_is_told(tmp_path):
    (tmp_path / "run.json").write_text("{")

    assert_refused(phasemeter("report", tmp_path), "run.json")


def test_a_missing_extra_is_named(tmp_path):
    for name in ("httptools", "rich"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError(name='{name}')")

        result = phasemeter(*LOAD, PYTHONPATH=str(tmp_path))

        assert_refused(result, name, "phasemeter[load,lab]")


def test_help_and_version_work_everywhere():
    for arguments in (["--help"], ["--version"], ["load", "--help"], ["lab", "serve", "--help"]):
        assert phasemeter(*arguments).returncode == 0
