"""Runs the truth server in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phasemeter.core.errors import PhasemeterError

_STOP_S = 5.0


@contextmanager
def running_truth_server(truth_path: Path, pacing: str, *, model: str = "truth") -> Iterator[str]:
    """Run a truth server; gives its URL. Its log is whole when the block has ended.

    Args:
        truth_path: Where the log goes; `read_truth` reads it.
        pacing: Settings of `phasemeter.testing.truth.pacing.Pacing` as NAME=VALUE[,NAME=VALUE...].
        model: Name that the server lists.

    Raises:
        PhasemeterError: If it does not start; the message holds what it said.
    """
    command = [sys.executable, "-m", "phasemeter.testing.truth", "--truth", str(truth_path)]
    process = subprocess.Popen(
        [*command, "--pacing", pacing, "--model", model],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        ready = process.stdout.readline()  # it says so or ends; either gives a line or nothing
        if not ready:
            msg = f"the truth server did not start: {process.stderr.read().strip()}"
            raise PhasemeterError(msg)
        yield json.loads(ready)["ready"]
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
