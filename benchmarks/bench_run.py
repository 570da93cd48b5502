"""One run of one tool against a fresh truth server, and the busy neighbour."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hub_cache import REPOSITORY
from benchmarks.measured_process import only_on, run_measured
from benchmarks.peers.tool import Load, Tool
from benchmarks.results import Result
from benchmarks.truth_figures import load_requests, truth_figures
from phasemeter.testing.truth.launch import running_truth_server
from phasemeter.testing.truth.log import read_truth

_PROMPT_TOKENS = 32
_PARSE_ERRORS = (OSError, KeyError, ValueError, IndexError, TypeError)


@dataclass(frozen=True, slots=True)
class Size:
    """How much load.

    Attributes:
        users: Requests in flight.
        requests: Requests in all.
        tokens: Tokens an answer.
    """

    users: int
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Bench:
    """What all runs of a session share.

    Attributes:
        folder: Where everything is kept: environments, tokenizer, files of the runs.
        pacing: Pacing of the server, as `phasemeter.testing.truth` takes it.
        server_cpus: Cores of the server; None for all.
        client_cpus: Cores of the tools; None for all.
        timeout_s: Time limit of one run, start and end included.
    """

    folder: Path
    pacing: str
    server_cpus: Collection[int] | None
    client_cpus: Collection[int] | None
    timeout_s: float

    def environment(self, tool: Tool) -> Path:
        """Return the folder of a tool's virtual environment."""
        return self.folder / tool.name

    def run(self, tool: Tool, size: Size, number: int) -> Result:
        """Run a tool once; whatever goes wrong is in the result's `failure`."""
        out = self.folder / "runs" / f"{tool.name}-{size.users}-{number}"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        failed = Result(tool.name, size.users, number)
        truth_path = out / "truth.jsonl"
        with ExitStack() as running:
            with only_on(self.server_cpus):
                server = running_truth_server(truth_path, self.pacing, model=REPOSITORY)
                url = running.enter_context(server)
            load = Load(url, REPOSITORY, size.users, size.requests, _PROMPT_TOKENS, size.tokens)
            try:
                usage = run_measured(
                    tool.command(self.environment(tool), load, out),
                    out,
                    environment=self._variables(),
                    cpus=self.client_cpus,
                    timeout_s=self.timeout_s,
                )
            except OSError as fault:
                return _with(failed, failure=f"could not be started: {fault.strerror}")
        if usage.returncode is None:
            return _with(failed, failure=f"not done within {self.timeout_s:.0f} s")
        try:
            truth = truth_figures(load_requests(read_truth(truth_path), size.requests, size.tokens))
            reported = tool.read(out)
        except _PARSE_ERRORS as fault:
            reason = f"exit status {usage.returncode}, {type(fault).__name__}: {fault}"
            return _with(failed, failure=reason[:200])
        return Result(
            tool.name,
            size.users,
            number,
            truth=truth,
            reported=reported,
            cpu_s=usage.cpu_s,
            load_cpu_s=usage.cpu_between(truth.started_ns, truth.ended_ns),
            load_waits=usage.waits_between(truth.started_ns, truth.ended_ns),
            wall_s=usage.wall_s,
            peak_rss_bytes=usage.peak_rss_bytes,
        )

    def _variables(self) -> dict[str, str]:
        return {
            "HF_HOME": str(self.folder / "hub"),
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "NO_COLOR": "1",
        }


def _with(result: Result, *, failure: str) -> Result:
    return Result(result.tool, result.users, result.round, failure=failure)


@contextmanager
def busy_process(cpu: int) -> Iterator[None]:
    """Keep a core busy with a process that never waits."""
    parent = os.getpid()
    code = f"import os\nwhile os.getppid() == {parent}:\n    sum(range(100_000))"
    with only_on({cpu}):
        process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()
