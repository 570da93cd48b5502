"""Real servers as processes: started, waited for within bounds, and always ended."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.server_process import server_processes

_STOP_S = 20


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def get(url: str, timeout_s: float = 30) -> bytes:
    """Return the body of a plain GET."""
    with urllib.request.urlopen(url, timeout=timeout_s) as response:
        return response.read()


@dataclass(frozen=True, slots=True)
class Server:
    """What it takes to run one.

    Attributes:
        command: Its command line.
        ready_url: A URL that it answers once it is ready.
        log: Where its output goes.
        variables: Environment variables that are its own.
    """

    command: Sequence[str | Path]
    ready_url: str
    log: Path
    variables: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def serving(
    command: Sequence[str | Path],
    ready_url: str,
    log: Path,
    *,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends.

    Raises:
        RuntimeError: If it ends by itself or is not ready in time; with the end of its log.
    """
    server = Server(command, ready_url, log, variables or {})
    with serving_together([server], timeout_s=timeout_s) as (process,):
        yield process


@contextmanager
def serving_together(
    servers: Sequence[Server], *, timeout_s: float = 120
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run servers that start at the same time, until the block ends.

    Raises:
        RuntimeError: If one ends by itself or is not ready in time; with the end of its log.
    """
    with server_processes(stop_s=_STOP_S) as running:
        processes = [
            running.start([*map(str, one.command)], one.log, variables=one.variables)
            for one in servers
        ]
        deadline = time.monotonic() + timeout_s
        for process, server in zip(processes, servers, strict=True):
            _wait(process, server.ready_url, server.log, deadline)
        yield processes


def _wait(process: subprocess.Popen[bytes], url: str, log: Path, deadline: float) -> None:
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with suppress(OSError, urllib.error.URLError):
            get(url, 2)
            return
        time.sleep(0.2)
    state = f"ended with {process.returncode}" if process.returncode is not None else "is not ready"
    last = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
    msg = f"{Path(str(process.args[-1])).name}: {state}\n{last}"  # type: ignore[index]
    raise RuntimeError(msg)
