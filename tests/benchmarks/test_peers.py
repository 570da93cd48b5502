"""Each tool's result is read from a file that it wrote; what it is asked for is the load."""

import shutil
from pathlib import Path

import pytest

from benchmarks.peers import TOOLS, by_name
from benchmarks.peers.environment import ensure, newer_python, run
from benchmarks.peers.tool import Load, Reported, UnavailableError, count_gaps

# Two users, four requests of six tokens, TTFT 60 ms, gap 10 ms; cut to what is read.
RECORDED = Path(__file__).parent / "recorded"
LOAD = Load("http://127.0.0.1:8000", "phasemeter/truth", 37, 91, 32, 53)
READ = {
    "aiperf": Reported(
        4, 64.5477425, 69.94548793999999, 11.278868949999998, 11.317722999999999, 20, 0
    ),
    "guidellm": Reported(4, 60.915231704711914, 61.356544494628906),
    "vllm-bench": Reported(
        4, 62.23174249953445, 62.469244610483656, 10.341614529988874, 10.353491999921971, 20, 0
    ),
    "inference-perf": Reported(
        4, 62.14157799968234, 63.917831309818204, 10.503219240063117, 10.532860000239452, 20, 0
    ),
    "aiohttp-loop": Reported(
        4, 61.26971750018129, 62.69087407979896, 10.62588100047833, 10.66703500055155, 20, 0
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_recorded_result_is_read(name):
    tool = by_name(name)

    assert tool.read(RECORDED / name) == READ[name]


@pytest.mark.parametrize("name", READ)
def test_a_missing_result_is_an_error_that_the_comparison_knows(name, tmp_path):
    with pytest.raises(OSError, match="No such file"):
        by_name(name).read(tmp_path)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_command_asks_for_the_load(tool, tmp_path):
    command = tool.command(tmp_path, LOAD, tmp_path / "out")
    text = " ".join(command)
    if tool.name == "inference-perf":
        text = (tmp_path / "out" / "configuration.yaml").read_text()

    for wanted in ("127.0.0.1:8000", "phasemeter/truth", "37", "91", "32", "53"):
        assert wanted in text


def test_names_are_unique_and_found():
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    assert all(by_name(tool.name) is tool for tool in TOOLS)
    assert by_name("wrk") is None


def test_gaps_that_the_server_never_makes_are_counted():
    assert count_gaps([20.0, 0.0, 0.03, 0.1]) == (4, 2)


def test_an_environment_is_made_once(tmp_path):
    """Without any package nothing is fetched, and the second call finds it done."""
    assert ensure(tmp_path / "one")
    assert not ensure(tmp_path / "one")
    shutil.rmtree(tmp_path / "one")


def test_a_failed_installation_says_why(tmp_path):
    with pytest.raises(UnavailableError, match="could not be installed: ERROR"):
        ensure(tmp_path / "one", ["--no-index", "no-such-distribution-of-phasemeter"])


def test_a_program_that_is_not_there_is_unavailable():
    with pytest.raises(UnavailableError, match="no-such-program"):
        run(["/no-such-program"])


def test_an_interpreter_is_found_or_not():
    assert newer_python((3, 11)) is not None
    assert newer_python((3, 99)) is None
