"""Server processes of measurements and tests: started side by side, and always ended with what they started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from phasemeter.core.clock import NS_PER_S, now_ns

_ROOT = Path(__file__).parents[1]


class ServerProcesses:
    """Starts servers; made by `server_processes`, which ends them."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        command: Sequence[str],
        log: Path,
        *,
        variables: Mapping[str, str],
        folder: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start one.

        Args:
            command: Its command line.
            log: Where its output goes.
            variables: Environment variables that are its own.
            folder: Its working folder; this process's where None.
        """
        # Should this process be killed, so is the server, where the system offers that.
        guard = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*guard, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                cwd=folder,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def end(self, within_s: float) -> None:
        """Ask all to end, and kill what is left after so long."""
        for process in self._running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        deadline_ns = now_ns() + round(within_s * NS_PER_S)
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max((deadline_ns - now_ns()) / NS_PER_S, 0.1))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(within_s)


@contextmanager
def server_processes(*, stop_s: float) -> Iterator[ServerProcesses]:
    """Give a starter of servers, all of which are ended with the block.

    Args:
        stop_s: How long they may take to end by themselves, all together.
    """
    processes = ServerProcesses()
    try:
        yield processes
    finally:
        processes.end(stop_s)


@contextmanager
def piped_server(module: str, *arguments: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run a server module of ours that says `{"port": N}` and ends with its input.

    Yields:
        The port, and the process with its pipes; it is killed on leaving.

    Raises:
        OSError: If it ended before it said its port.
    """
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if not said:
                msg = f"{module} ended before it said its port"
                raise OSError(msg)
            yield json.loads(said)["port"], process
        finally:
            process.kill()
