"""Real servers as processes: started, waited for within bounds, and always ended."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_STOP_S = 20


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def get(url: str, timeout_s: float = 30) -> bytes:
    """Return the body of a plain GET."""
    with urllib.request.urlopen(url, timeout=timeout_s) as response:
        return response.read()


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
    # Should this process be killed, so is the server, where the system offers that.
    guard = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*guard, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
        )
    try:
        _wait(process, ready_url, log, timeout_s)
        yield process
    finally:
        _stop(process)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
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


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(_STOP_S)
