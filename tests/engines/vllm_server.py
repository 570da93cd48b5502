"""A real vLLM on the CPU, with a small random model made on the spot, and its counters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.hub_cache import write_hub_cache
from benchmarks.peers.environment import run
from tests.engines.environments import Environment
from tests.engines.servers import Server, free_port, get, serving_together

MODEL = "tiny"


@dataclass(frozen=True, slots=True)
class Vllm:
    """A running server.

    Attributes:
        url: Root, without `/v1`.
    """

    url: str

    def counters(self) -> dict[str, float]:
        """Return what it counts, added up over labels: a sample's name without `vllm:`."""
        text = get(f"{self.url}/metrics").decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removeprefix("vllm:")
                found[name] = found.get(name, 0.0) + sample.value
        return found


@contextmanager
def running_vllm(
    environment: Environment, folder: Path, options: Sequence[str] = ()
) -> Iterator[Vllm]:
    """Make the model in a folder and serve it, with further options, until the block ends."""
    url, server = _server(environment, folder, "vllm", _cores()[0], options)
    with serving_together([server], timeout_s=360):
        yield Vllm(url)


@contextmanager
def running_vllm_pair(environment: Environment, folder: Path) -> Iterator[tuple[Vllm, Vllm]]:
    """Serve the model with two instances that can hand KV caches to each other, until the block ends.

    Each does whole requests too, so the same two are a pair of replicas and 1P1D. Each computes on a
    core of its own where there are two.
    """
    cores = _cores()
    made = [
        _server(environment, folder, f"vllm-{name}", cores[number % len(cores)], _NIXL)
        for number, name in enumerate(("first", "second"))
    ]
    with serving_together([server for _, server in made], timeout_s=480) as processes:
        for number, process in enumerate(processes):
            _keep_to(process.pid, cores[number % len(cores)])
        first, second = (Vllm(url) for url, _ in made)
        yield first, second


_NIXL = (
    "--kv-transfer-config",
    '{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"}',
)


def _cores() -> list[int]:
    return sorted(getattr(os, "sched_getaffinity", lambda _: {0})(0))


def _server(
    environment: Environment, folder: Path, name: str, core: int, options: Sequence[str]
) -> tuple[str, Server]:
    """Return the URL of an instance, and what it takes to run it; makes the model if it is not there."""
    model = folder / "model"
    if not model.exists():
        shutil.copytree(write_hub_cache(folder / "hub"), model)
        weights = Path(__file__).with_name("tiny_llama.py")
        run([str(environment.program("python")), str(weights), str(model)])
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        *(environment.program("vllm"), "serve", model, "--served-model-name", MODEL),
        *("--dtype", "float32", "--max-model-len", "4096", "--enforce-eager"),
        *("--enable-per-request-metrics", "--enable-prompt-tokens-details"),
        *("--host", "127.0.0.1", "--port", str(port), *options),
    ]
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": str(core),  # one core computes
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    return url, Server(command, f"{url}/health", folder / f"{name}.log", variables)


def _keep_to(pid: int, core: int) -> None:
    """Keep the threads that compute to a core: NIXL has moved them to the machine's last one."""
    for process in psutil.Process(pid).children(recursive=True):
        for thread in process.threads():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread.id, {core})
