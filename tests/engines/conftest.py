"""The real engines as fixtures; what cannot be had skips with its reason."""

import time

import pytest

from phasemeter.lab.config import EngineConfig
from phasemeter.lab.launch import start_engines
from tests.engines.environments import PHOENIX, PROMETHEUS, VLLM, nixl_missing
from tests.engines.trace_store import running_phoenix
from tests.engines.vllm_server import running_vllm, running_vllm_pair


def _needed(environment):
    reason = environment.missing()
    if reason is not None:
        pytest.skip(reason)
    return environment


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """Our own faults must show in our own tests."""
    monkeypatch.setenv("PHASEMETER_STRICT", "1")


@pytest.fixture(scope="session")
def eventually():
    """Return the first true value of a function, asked until a generous limit."""

    def wait(ask, limit_s=60.0):
        deadline = time.monotonic() + limit_s
        while not (value := ask()):
            assert time.monotonic() < deadline, "did not come true"
            time.sleep(0.1)
        return value

    return wait


@pytest.fixture(scope="session")
def lab():
    """A running lab engine of the real size."""
    with start_engines([EngineConfig(exit_with_parent=True)]) as (engine,):
        yield engine


@pytest.fixture(scope="session")
def prometheus_environment():
    """Where Prometheus lies."""
    return _needed(PROMETHEUS)


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory):
    """A running trace store."""
    with running_phoenix(_needed(PHOENIX), tmp_path_factory.mktemp("phoenix")) as store:
        yield store


@pytest.fixture(scope="session")
def vllm(tmp_path_factory):
    """A running vLLM with a small model."""
    environment = _needed(VLLM)
    with running_vllm(environment, tmp_path_factory.mktemp("vllm")) as server:
        yield server


@pytest.fixture(scope="module")
def vllm_pair(tmp_path_factory):
    """Two running vLLMs with a small model, which can hand KV caches to each other."""
    environment = _needed(VLLM)
    reason = nixl_missing()
    if reason is not None:
        pytest.skip(reason)
    with running_vllm_pair(environment, tmp_path_factory.mktemp("vllm")) as servers:
        yield servers
