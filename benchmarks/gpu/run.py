"""The interference experiment on a GPU without a network: python -m benchmarks.gpu.run --output FOLDER

Brings up a server with random weights in the shape of Llama-3.1-8B, runs inject, mix and ramp within a time
that is planned up front, and keeps what was measured whenever it is stopped. docs/gpu.md tells what it does.
`--device cpu --shape small` runs all of it on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from benchmarks.gpu.backends import (
    Backend,
    Deployment,
    Device,
    choose,
    transformers_deployment,
    vllm_deployment,
)
from benchmarks.gpu.commands import Rates, probe, run_phasemeter
from benchmarks.gpu.environment import NoInterpreterError, ServerEnvironment, look_into
from benchmarks.gpu.hardware import Gpu, NoGpuError, gpus_now, machine, recording
from benchmarks.gpu.model import LLAMA_8B, SHAPES, Shape, write_model
from benchmarks.gpu.results import Results
from benchmarks.gpu.servers import NotReadyError, free_ports, serving
from benchmarks.gpu.time_plan import CLOSE_S, SIZES, PlannedPart, TimePlan, time_plan
from phasemeter.core.clock import NS_PER_S, now_ns

_SAMPLES = "gpu.csv"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every planned part was carried out, 1 if not, 2 on bad usage, 130 if interrupted."""
    given = _parser().parse_args(arguments)
    shape: Shape = SHAPES[given.shape]
    started_ns = now_ns()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        gpus = gpus_now() if given.device == "cuda" else []
        environment = look_into(given.python)
    except (NoGpuError, NoInterpreterError) as fault:
        return _refuse(str(fault))
    backends = choose(given.backend, environment.importable)
    if not backends:
        wanted = "vllm or transformers[serving]" if given.backend == "auto" else given.backend
        return _refuse(f"--python: {given.python} cannot import {wanted}")
    folder: Path = given.output.resolve()
    if folder.exists() and any(folder.iterdir()):
        return _refuse(f"--output: {folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(
        folder, given.device, shape, environment.versions, machine(gpus), given.budget
    )
    work = _Work(given, shape, gpus, environment, folder, results, started_ns)
    status = 1
    try:
        with recording(folder / _SAMPLES):
            # The next backend is tried only where one could not be brought up at all.
            complete = any(work.carry_out(backend) for backend in backends)
        status = 0 if complete and results.is_complete() else 1
    except KeyboardInterrupt:
        status = 130
    finally:
        results.close(started_ns, folder / _SAMPLES)
        if given.archive is not None:
            _pack(folder, given.archive)
    print(f"results  {results.path}")
    return status


class _Work:
    """Carries out stages and parts against the clock."""

    def __init__(
        self,
        given: argparse.Namespace,
        shape: Shape,
        gpus: Sequence[Gpu],
        environment: ServerEnvironment,
        folder: Path,
        results: Results,
        started_ns: int,
    ) -> None:
        self._given = given
        self._shape = shape
        self._gpus = gpus
        self._environment = environment
        self._folder = folder
        self._results = results
        self._started_ns = started_ns
        self._model = write_model(folder / "model", shape)

    def carry_out(self, backend: Backend) -> bool:
        """Run everything on one backend; False where it could not be brought up."""
        begun_ns = now_ns()
        try:
            deployment = self._deployment(backend)
            plan = self._plan(deployment, deployment.start_s)
            self._results.planned(backend, plan)
            ready_by_ns = begun_ns + round(deployment.start_s * NS_PER_S)
            with serving(deployment.servers, self._folder, end_ns=ready_by_ns):
                self._results.ready(deployment, (now_ns() - begun_ns) / NS_PER_S)
                self._measure(backend, deployment)
        except (NotReadyError, ValueError) as fault:
            self._results.could_not(backend, str(fault))
            return False
        return True

    def _plan(self, deployment: Deployment, start_s: float) -> TimePlan:
        left_s = self._given.budget - (now_ns() - self._started_ns) / NS_PER_S
        return time_plan(
            left_s,
            deployment.wanted,
            arms=deployment.arms,
            sizes=SIZES[self._shape.name],
            start_s=start_s,
        )

    def _deployment(self, backend: Backend) -> Deployment:
        given = self._given
        if backend == "transformers":
            return transformers_deployment(
                given.python, self._model, self._shape, device=given.device, ports=free_ports(2)
            )
        return vllm_deployment(
            given.python,
            self._model,
            self._shape,
            device=given.device,
            gpus=self._gpus,
            has_nixl=self._environment.importable["nixl"] and not given.mixed_only,
            ports=free_ports(4),
            cores=sorted(os.sched_getaffinity(0)),
        )

    def _measure(self, backend: Backend, deployment: Deployment) -> None:
        """Plan again with the time that starting really left, then measure part by part."""
        plan, planned_ns = self._plan(deployment, 0.0), now_ns()
        self._results.planned(backend, plan)
        first = deployment.servers[0]
        rates = probe(f"{first.url}/v1", first.model, SIZES[self._shape.name], self._folder)
        self._results.chose(rates)
        for part, end_s in zip(plan.parts, plan.ends_s(), strict=True):
            options = deployment.targets[part.target]
            self._part(part, options, rates, planned_ns + round(end_s * NS_PER_S))

    def _part(self, part: PlannedPart, target: Sequence[str], rates: Rates, end_ns: int) -> None:
        run = self._folder / part.label.replace("/", "-")
        own = part.options(rate_per_s=rates.requests_per_s, injections_per_s=rates.injections_per_s)
        begun_ns = now_ns()
        ended = run_phasemeter(
            ["interference", *target, *own, "-o", str(run), "--json"],
            run.with_suffix(".log"),
            end_ns=end_ns,
        )
        measured_ns = now_ns()
        if ended.document is None and run.is_dir():
            # It was killed before it could report; what it measured lies in its folder.
            again = run_phasemeter(
                ["report", str(run), "--json"],
                run.with_suffix(".report.log"),
                end_ns=measured_ns + round(CLOSE_S * NS_PER_S),
            )
            ended = replace(ended, document=again.document)
        self._results.measured(part, ended, run.name, begun_ns, measured_ns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.run", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--output", type=Path, required=True, help="new or empty folder")
    parser.add_argument("--device", choices=get_args(Device), default="cuda")
    parser.add_argument("--shape", choices=sorted(SHAPES), default=LLAMA_8B.name)
    parser.add_argument(
        "--budget", type=float, default=480.0, metavar="SECONDS", help="for everything; 480"
    )
    parser.add_argument("--backend", choices=["auto", *get_args(Backend)], default="auto")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the server's environment; this one"
    )
    parser.add_argument(
        "--mixed-only", action="store_true", help="vLLM without prefill and decode instances"
    )
    parser.add_argument(
        "--archive", type=Path, metavar="FILE.tar.gz", help="pack the folder into one file"
    )
    return parser


def _refuse(message: str) -> int:
    print(f"benchmarks.gpu.run: {message}", file=sys.stderr)
    return 2


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _pack(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:gz", compresslevel=6) as packed:
        packed.add(folder, arcname=folder.name, filter=_without_model)


def _without_model(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(member.name).parts[1:2] == ("model",) else member


if __name__ == "__main__":
    sys.exit(main())
