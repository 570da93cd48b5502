"""Starts the servers of a stage side by side, waits until each has answered, and always ends them."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.gpu.backends import Server
from benchmarks.server_process import server_processes
from phasemeter.core.clock import NS_PER_S, now_ns

_STOP_S = 10
_ASK_EVERY_S = 0.5
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NotReadyError(Exception):
    """A server ended, or did not answer in time; the message holds the end of its log."""


def free_ports(number: int) -> list[int]:
    """Return ports that nothing listens on now, with their neighbours 1,000 higher in range."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(8 * number)]
    try:
        found = [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
    return [port for port in found if port < 64_000][:number]


@contextmanager
def serving(servers: Sequence[Server], folder: Path, *, end_ns: int) -> Iterator[None]:
    """Run servers until the block ends; logs go into the folder.

    Args:
        servers: The servers.
        folder: Where their logs go.
        end_ns: When all must have answered a request, monotonic.

    Raises:
        NotReadyError: If one does not.
    """
    with server_processes(stop_s=_STOP_S) as processes:
        running = []
        for server in servers:
            log = folder / f"{server.name}.log"
            process = processes.start(
                server.command, log, variables=server.variables, folder=folder
            )
            running.append((server, process, log))
        for server, process, log in running:
            _await(server, process, log, end_ns)
        yield


def _await(server: Server, process: subprocess.Popen[bytes], log: Path, end_ns: int) -> None:
    """Wait for the server's first answer: with the port open, caches and graphs may still be to come."""
    while (left_s := (end_ns - now_ns()) / NS_PER_S) > 0:
        if process.poll() is not None:
            raise NotReadyError(_told(server, f"ended with {process.returncode}", log))
        with suppress(OSError, urllib.error.URLError):
            with _LOCAL.open(f"{server.url}/health", timeout=2):
                pass
            _complete(server, left_s)
            return
        time.sleep(_ASK_EVERY_S)
    raise NotReadyError(_told(server, "did not answer in time", log))


def _complete(server: Server, timeout_s: float) -> None:
    body = {"model": server.model, "prompt": "a river", "max_tokens": 4, "temperature": 0}
    request = urllib.request.Request(
        f"{server.url}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with _LOCAL.open(request, timeout=timeout_s) as answer:
        answer.read()


def _told(server: Server, state: str, log: Path) -> str:
    said = log.read_text(errors="replace").splitlines()[-15:]
    return "\n".join([f"{server.name} {state}", *said])
