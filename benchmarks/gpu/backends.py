"""Which server is brought up, and how: every command line and variable, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from benchmarks.gpu.hardware import Gpu
from benchmarks.gpu.model import Shape
from benchmarks.gpu.time_plan import PartName, Wanted

Backend = Literal["vllm", "transformers"]
Device = Literal["cuda", "cpu"]
Policy = Literal["fifo", "prefill_first"]
Role = Literal["mixed", "prefill", "decode"]

MODEL = "random"
"""Name under which vLLM serves the model; transformers names it by its folder."""

SERVE_TRANSFORMERS = Path(__file__).with_name("serve_transformers.py")

_GIB = 2**30
_BYTES_PER_WEIGHT = {"bfloat16": 2, "float16": 2, "float32": 4}
_BESIDE_WEIGHTS_GIB = 6  # activations, graphs and the context of a process
_LEAST_CACHE_GIB = 4
_USABLE = 0.9
_BATCH_TOKENS = {"cuda": 1024, "cpu": 128}  # below the longest prompts, or policies do not differ
_SHARE_OF_MEMORY = 0.4  # of what is free, for the cache of each of two instances
_CPU_BLOCKS = 512
# Generous, since the plan is made again with the time that starting really took.
_START_S = {("vllm", "cuda"): 210.0, ("transformers", "cuda"): 150.0}
_START_ON_CPU_S = 240.0
_CPU_CACHE_GIB = 1
_MAX_MODEL_LEN = 8192


@dataclass(frozen=True, slots=True)
class Server:
    """One process that serves.

    Attributes:
        name: For logs.
        url: Root, without `/v1`.
        model: Name of the model in requests.
        command: Command line.
        variables: Environment variables beside the inherited ones.
    """

    name: str
    url: str
    model: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Servers that are up together, and how the experiment is pointed at them.

    Attributes:
        servers: The servers.
        targets: Options of `phasemeter interference` for each thing that is measured, by its name.
        arms: Names of the topologies of each target.
        wanted: What to measure, the most important first.
        start_s: Time limit until all servers answer.
        note: How they share the hardware, in words.
    """

    servers: tuple[Server, ...]
    targets: Mapping[str, tuple[str, ...]]
    arms: tuple[str, ...]
    wanted: tuple[Wanted, ...]
    start_s: float
    note: str


def choose(wanted: str, importable: Mapping[str, bool]) -> list[Backend]:
    """Return the backends to try, the best first.

    Args:
        wanted: `auto`, or one backend.
        importable: Which modules the server's interpreter has.

    Returns:
        None of them where nothing can be brought up.
    """
    usable: list[Backend] = []
    if importable.get("vllm"):
        usable.append("vllm")
    if all(
        importable.get(one) for one in ("transformers", "torch", "fastapi", "uvicorn", "openai")
    ):
        usable.append("transformers")
    return [one for one in usable if wanted in ("auto", one)]


def cache_gib(shape: Shape, gpu: Gpu, instances: int) -> int | None:
    """Return the key-value cache in GiB that each of some instances on one GPU can have.

    None where they do not fit, or where nobody knows how large the GPU is.
    """
    if gpu.memory_total_mib is None:
        return None
    weights_gib = shape.parameters * _BYTES_PER_WEIGHT[shape.dtype] / _GIB
    each_gib = _USABLE * gpu.memory_total_mib / 1024 / instances
    left_gib = int(each_gib - weights_gib - _BESIDE_WEIGHTS_GIB)
    return left_gib if left_gib >= _LEAST_CACHE_GIB else None


def transformers_deployment(
    python: str, model: Path, shape: Shape, *, device: Device, ports: Sequence[int]
) -> Deployment:
    """Return two `transformers serve` with continuous batching, one a policy, on the same device.

    Only one of them is under load at a time. The policy fifo is measured in full, prefill_first by
    injection: decoding streams then wait until a prompt that does not fit into one batch has been read.

    Args:
        python: Interpreter of the server's environment.
        model: The model's folder.
        shape: The model's shape.
        device: What it computes on.
        ports: At least two free ports.
    """
    policies: tuple[Policy, ...] = ("fifo", "prefill_first")
    servers = tuple(
        _transformers_server(python, model, shape, policy, device, port)
        for policy, port in zip(policies, ports, strict=False)
    )
    return Deployment(
        servers=servers,
        targets={
            policy: ("--mixed", f"{server.url}/v1", "--model", str(model))
            for policy, server in zip(policies, servers, strict=True)
        },
        arms=("mixed",),
        wanted=(
            Wanted("fifo", "inject"),
            Wanted("prefill_first", "inject"),
            Wanted("fifo", "mix"),
            Wanted("fifo", "ramp-mix"),
            Wanted("fifo", "ramp-long"),
        ),
        start_s=_start_s("transformers", device),
        note="one instance a policy on the same device; only one is under load at a time",
    )


def _transformers_server(
    python: str, model: Path, shape: Shape, policy: Policy, device: Device, port: int
) -> Server:
    command = [
        *(python, str(SERVE_TRANSFORMERS), str(model), "--policy", policy, "--device", device),
        *("--dtype", shape.dtype, "--max-batch-tokens", str(_BATCH_TOKENS[device])),
        *("--port", str(port)),
    ]
    if device == "cpu":
        command += ["--num-blocks", str(_CPU_BLOCKS), "--threads", "1"]
    else:
        command += ["--memory-share", str(_SHARE_OF_MEMORY)]
    variables = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    url = f"http://127.0.0.1:{port}"
    return Server(f"transformers-{policy}", url, str(model), tuple(command), variables)


def vllm_deployment(
    python: str,
    model: Path,
    shape: Shape,
    *,
    device: Device,
    gpus: Sequence[Gpu],
    has_nixl: bool,
    ports: Sequence[int],
    cores: Sequence[int],
) -> Deployment:
    """Return vLLM with dummy weights: mixed, and beside it one prefill and one decode instance.

    With two GPUs or more the topologies get two: two mixed replicas against prefill on the one and decode
    on the other. With one GPU a mixed instance is compared with prefill and decode that share it. Where the
    memory does not suffice, or without NIXL, only a mixed instance is served.

    Args:
        python: Interpreter of vLLM's environment.
        model: The model's folder.
        shape: The model's shape.
        device: What it computes on.
        gpus: The GPUs; empty on the CPU.
        has_nixl: Whether the hand-off's transport is there.
        ports: At least four free ports; for the hand-off those 1,000 higher are used too.
        cores: Cores that this process may use; on the CPU each instance computes on one.

    Raises:
        ValueError: If not even one instance fits.
    """
    shared_by = 2 if len(gpus) >= 2 else 3  # instances on one GPU while all are up
    cache = _CPU_CACHE_GIB if device == "cpu" else cache_gib(shape, gpus[0], shared_by)
    # On the CPU an instance with a hand-off never sleeps: each needs a core, and so does the client.
    separated = has_nixl and cache is not None and (device != "cpu" or len(cores) > shared_by)
    if cache is None:
        cache = cache_gib(shape, gpus[0], 1)
    if cache is None:
        msg = f"the model and its cache do not fit into {gpus[0].name}"
        raise ValueError(msg)
    places: list[int | None] = [gpu.index for gpu in gpus] or [None]
    first, second = places[0], places[1 % len(places)]
    roles: list[tuple[Role, int | None]] = [("mixed", first)]
    if separated:
        if second != first:
            roles.append(("mixed", second))
        roles += [("prefill", first), ("decode", second)]
    servers = tuple(
        _vllm_server(
            python, model, shape, role, device, place, cache, port, cores[number % len(cores)]
        )
        for number, ((role, place), port) in enumerate(zip(roles, ports, strict=False))
    )
    urls = [(server.name.rpartition("-")[2], f"{server.url}/v1") for server in servers]
    options = [text for role, url in urls if role == "mixed" for text in ("--mixed", url)]
    note = "one instance has the device to itself"
    arms: tuple[str, ...] = ("mixed",)
    if separated:
        told = ",".join(f"{role}={url}" for role, url in urls if role != "mixed")
        count = 1 if second == first else 2
        options += ["--separated", told, "--gpus", f"mixed={count},separated={count}"]
        arms = ("mixed", "separated")
        note = (
            "one prefill and one decode instance share the device that the mixed instance has"
            if second == first
            else "two mixed replicas, one a GPU; prefill on the first GPU and decode on the second"
        )
    return Deployment(
        servers=servers,
        targets={"vllm": (*options, "--model", MODEL)},
        arms=arms,
        wanted=tuple(Wanted("vllm", part) for part in get_args(PartName)),
        start_s=_start_s("vllm", device),
        note=note,
    )


def _vllm_server(
    python: str,
    model: Path,
    shape: Shape,
    role: Role,
    device: Device,
    gpu: int | None,
    cache: int,
    port: int,
    core: int,
) -> Server:
    command = [
        *(python, "-m", "vllm.entrypoints.cli.main", "serve", str(model)),
        *("--served-model-name", MODEL, "--load-format", "dummy", "--dtype", shape.dtype),
        *("--max-model-len", str(min(shape.max_tokens, _MAX_MODEL_LEN))),
        *("--enable-per-request-metrics", "--enable-prompt-tokens-details"),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    variables = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if device == "cpu":
        command.append("--enforce-eager")
        variables["VLLM_CPU_KVCACHE_SPACE"] = str(cache)
        variables["VLLM_CPU_OMP_THREADS_BIND"] = str(core)
    else:
        # With the cache's size told, instances that start side by side do not measure each other.
        command += ["--kv-cache-memory-bytes", str(cache * _GIB)]
        command += ["--gpu-memory-utilization", "0.05"]
        variables["CUDA_VISIBLE_DEVICES"] = str(gpu)
    if role != "mixed":
        transfer = {
            "kv_connector": "NixlConnector",
            "kv_role": "kv_producer" if role == "prefill" else "kv_consumer",
            "kv_buffer_device": device,
        }
        command += ["--kv-transfer-config", json.dumps(transfer)]
        variables["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(port + 1000)
    return Server(
        f"vllm-{port}-{role}", f"http://127.0.0.1:{port}", MODEL, tuple(command), variables
    )


def _start_s(backend: Backend, device: Device) -> float:
    return _START_ON_CPU_S if device == "cpu" else _START_S[backend, device]
