"""The lab engines of an experiment: two mixed replicas, and one prefill and one decode instance.

Both topologies get the same two cores: the first core serves the first replica and the prefill
instance, the second core the second replica and the decode instance. Only one topology is under load
at a time; an idle engine sleeps.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from phasemeter.core.errors import PhasemeterError, UsageError
from phasemeter.lab.config import EngineConfig, Policy, Role
from phasemeter.lab.launch import LaunchError, start_engines
from phasemeter.load.preflight import find_target, warm_up
from phasemeter.load.target import Target, Topology

_START_S = 120.0


@contextmanager
def lab_topologies(
    *, policy: Policy = "mixed", truth_folder: Path | None = None
) -> Iterator[dict[str, Target]]:
    """Start the engines and give the targets `mixed` and `separated`; stop the engines at the end.

    Args:
        policy: Scheduling policy of the mixed replicas.
        truth_folder: Where the engines write what they know of each request, or None.

    Raises:
        UsageError: If this process may not use at least two cores.
        PhasemeterError: If an engine does not start.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None, None]
    if len(cores) < 2:
        msg = "--lab: needs two cores, one for each engine of a topology; this process has one"
        raise UsageError(msg)

    def config(name: str, role: Role, core: int | None) -> EngineConfig:
        return EngineConfig(
            policy=policy,
            role=role,
            cpu=core,
            exit_with_parent=True,
            truth_path=None if truth_folder is None else truth_folder / f"truth-{name}.jsonl",
        )

    configs = [
        config("mixed-0", "both", cores[0]),
        config("mixed-1", "both", cores[1]),
        config("prefill", "prefill", cores[0]),
        config("decode", "decode", cores[1]),
    ]
    with ExitStack() as running:
        try:
            engines = running.enter_context(start_engines(configs, timeout_s=_START_S))
        except LaunchError as fault:
            msg = f"a lab engine did not start: {fault}"
            raise PhasemeterError(msg) from fault
        first, second, prefill, decode = (f"{engine.url}/v1" for engine in engines)
        yield {
            "mixed": _target("replicated", [first, second]),
            "separated": _target("separated", [prefill], [decode]),
        }


def _target(topology: Topology, urls: list[str], decode_urls: Sequence[str] = ()) -> Target:
    target = find_target(
        urls,
        decode_urls=decode_urls,
        topology=topology,
        model=None,
        api="completions",
        headers={},
        gpus=2,
    )
    warm_up(target, headers={})
    return target
