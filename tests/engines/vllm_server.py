"""A real vLLM on the CPU, with a small random model made on the spot, and its counters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.hub_cache import write_hub_cache
from benchmarks.peers.environment import run
from tests.engines.environments import Environment
from tests.engines.servers import free_port, get, serving

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
    model = folder / "model"
    shutil.copytree(write_hub_cache(folder / "hub"), model)
    weights = Path(__file__).with_name("tiny_llama.py")
    run([str(environment.program("python")), str(weights), str(model)])
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    cores = getattr(os, "sched_getaffinity", lambda _: {0})(0)
    command = [
        *(environment.program("vllm"), "serve", model, "--served-model-name", MODEL),
        *("--dtype", "float32", "--max-model-len", "4096", "--enforce-eager"),
        *("--enable-per-request-metrics", "--enable-prompt-tokens-details"),
        *("--host", "127.0.0.1", "--port", str(port), *options),
    ]
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": str(min(cores)),  # one core computes, the others are left free
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    log = folder / "vllm.log"
    with serving(command, f"{url}/health", log, variables=variables, timeout_s=360):
        yield Vllm(url)
