"""Start engine processes, wait until they serve, and stop them for sure."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from phasemeter.lab.config import EngineConfig, Policy, Role

_TERMINATE_NS = 3_000_000_000
_POLL_S = 0.01
_TAIL_BYTES = 2000


class LaunchError(RuntimeError):
    """An engine process did not come up; the message has the end of its error output."""


@dataclass(frozen=True, slots=True)
class LabEngine:
    """A running engine process.

    Attributes:
        url: Base address, `http://host:port`.
        pid: Process id.
        role: Its role.
        policy: Its policy.
        process: The process, for those who want to signal or watch it.
    """

    url: str
    pid: int
    role: Role
    policy: Policy
    process: subprocess.Popen[bytes]


@contextmanager
def start_engines(
    configs: Sequence[EngineConfig], *, timeout_s: float = 60.0
) -> Iterator[list[LabEngine]]:
    """Run one engine process per configuration while the block runs.

    All start at once. Leaving the block, in whatever way, ends them: SIGTERM, then after three
    seconds SIGKILL.

    Args:
        configs: One per process; the engines come back in this order.
        timeout_s: Limit for all of them to be ready.

    Raises:
        LaunchError: A process ended early or was not ready in time.
    """
    deadline_ns = time.monotonic_ns() + int(timeout_s * 1e9)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="phasemeter-lab-")))
        starting: list[_Starting] = []
        stack.callback(_end_all, starting)
        for index, config in enumerate(configs):
            starting.append(_Starting(config, folder / f"{index}.out", folder / f"{index}.err"))
        yield [process.wait_until_ready(deadline_ns) for process in starting]


class _Starting:
    """A process whose output goes to files: a full pipe could never block it."""

    def __init__(self, config: EngineConfig, out: Path, err: Path) -> None:
        self._config = config
        self._out, self._err = out, err
        command = [sys.executable, "-m", "phasemeter.lab", *config.to_args()]
        with out.open("wb") as stdout, err.open("wb") as stderr:
            # A session of its own: a Ctrl-C at the terminal is for the launcher, which ends the
            # engines when it no longer needs them.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    def wait_until_ready(self, deadline_ns: int) -> LabEngine:
        while True:
            line = self._out.read_bytes()
            if line.endswith(b"\n"):
                ready = json.loads(line)
                role, policy = self._config.role, self._config.policy
                return LabEngine(ready["url"], ready["pid"], role, policy, self.process)
            code = self.process.poll()
            if code is not None:
                raise LaunchError(self._problem(f"ended with exit code {code}"))
            if time.monotonic_ns() > deadline_ns:
                raise LaunchError(self._problem("was not ready in time"))
            time.sleep(_POLL_S)

    def _problem(self, what: str) -> str:
        tail = self._err.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        return f"lab engine ({self._config.role}) {what}: {tail or 'no error output'}"


def _end_all(started: Sequence[_Starting]) -> None:
    processes = [one.process for one in started]
    for process in processes:
        process.terminate()
    deadline_ns = time.monotonic_ns() + _TERMINATE_NS
    for process in processes:
        try:
            process.wait(max(0.0, (deadline_ns - time.monotonic_ns()) / 1e9))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
