import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from phasemeter.lab.config import EngineConfig
from phasemeter.lab.launch import LaunchError, start_engines
from phasemeter.lab.segment import segment_exists

TINY = EngineConfig(model_size="tiny", max_model_len=128, max_num_seqs=2)

GRANDPARENT = """
import os, sys
from phasemeter.lab.config import EngineConfig
from phasemeter.lab.launch import start_engines
config = EngineConfig(model_size="tiny", max_model_len=128, exit_with_parent=True)
with start_engines([config]) as (engine,):
    print(engine.pid, engine.url, flush=True)
    sys.stdin.read()
"""


def is_alive(pid):
    try:
        # A zombie whose parent has not waited for it counts as gone.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_engines_are_ready_and_gone_afterwards():
    """Two processes, two ports; both exit with code 0 when the block is left."""
    with start_engines([TINY, TINY]) as engines:
        assert len({engine.url for engine in engines}) == 2
        assert [engine.process.poll() for engine in engines] == [None, None]

    assert [engine.process.returncode for engine in engines] == [0, 0]


def test_an_engine_that_cannot_start_tells_why():
    """The error has the process's own words, and the other engine is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = EngineConfig(model_size="tiny", port=taken.getsockname()[1])
        expected = pytest.raises(LaunchError, match=r"exit code 2.*[Aa]ddress already in use")
        with expected, start_engines([TINY, config]):
            pytest.fail("must not start")


def test_an_engine_that_is_too_slow_is_an_error():
    """No start takes less than a millisecond."""
    expected = pytest.raises(LaunchError, match="not ready in time")
    with expected, start_engines([TINY], timeout_s=0.001):
        pytest.fail("must not start")


def test_a_wrong_flag_is_one_line_and_code_2():
    """No traceback for the user."""
    command = [sys.executable, "-m", "phasemeter.lab", "--max-model-len=3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("phasemeter.lab: max_model_len must be")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_busy_engine(http_call, number):
    """Also while a stream runs; shared memory is freed."""
    config = EngineConfig(model_size="tiny", max_model_len=128, role="prefill")
    ask = {"do_remote_decode": True, "do_remote_prefill": False}
    with start_engines([config]) as (engine,):
        answer = http_call.complete(engine, max_tokens=1, kv_transfer_params=ask)
        name = answer.json["kv_transfer_params"]["remote_engine_id"]
        assert segment_exists(name)
        engine.process.send_signal(number)
        assert engine.process.wait(10) == 0

    assert not segment_exists(name)


def test_a_running_stream_does_not_delay_the_end(http_call, tmp_path):
    """A stream in flight is cut, and recorded as cancelled in the truth file."""
    path = tmp_path / "truth.jsonl"
    body = {"model": "lab", "prompt": "x", "max_tokens": 4000, "ignore_eos": True, "stream": True}
    with ExitStack() as stack:
        config = EngineConfig(model_size="tiny", truth_path=path)
        (engine,) = stack.enter_context(start_engines([config]))
        connection = stack.enter_context(
            http_call.open(engine, "POST", "/v1/completions", body, {"x-request-id": "cut"})
        )
        connection.getresponse().readline()
        engine.process.terminate()
        assert engine.process.wait(10) == 0

    (truth,) = map(json.loads, path.read_text().splitlines())
    assert (truth["request_id"], truth["outcome"]) == ("cut", "cancelled")
    assert 0 < truth["output_tokens"] < 4000


def test_memory_of_a_killed_engine_is_removed_by_the_next(http_call):
    """kill -9 leaves a segment behind until another prefill engine starts."""
    config = EngineConfig(model_size="tiny", max_model_len=128, role="prefill")
    ask = {"do_remote_decode": True, "do_remote_prefill": False}
    with start_engines([config]) as (engine,):
        answer = http_call.complete(engine, max_tokens=1, kv_transfer_params=ask)
        name = answer.json["kv_transfer_params"]["remote_engine_id"]
        engine.process.kill()
        engine.process.wait()
    with start_engines([config]):
        assert not segment_exists(name)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at /proc")
def test_an_engine_goes_with_its_killed_parent(eventually):
    """With exit_with_parent nothing is left when the launcher is killed."""
    launcher = subprocess.Popen(
        [sys.executable, "-c", GRANDPARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with launcher:
        pid = int(launcher.stdout.readline().split()[0])
        assert is_alive(pid)
        os.kill(launcher.pid, signal.SIGKILL)

    eventually(lambda: not is_alive(pid))
