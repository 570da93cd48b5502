"""Has the real engines ready: python -m tests.engines.set_up [NAME ...]

Each is installed by a process of its own, side by side, within a time limit. One that cannot be had is
no failure: its reason is printed and kept, and the tests that need it skip with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.peers.tool import UnavailableError
from tests.engines.environments import ALL, Environment

LIMIT_S = 900


def main(names: list[str]) -> int:
    """Set up what is named, everything by default; always 0 unless a name is not known."""
    known = {one.name: one for one in ALL}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"{unknown[0]}: not known; accepted: {', '.join(known)}", file=sys.stderr)
        return 2
    wanted = [known[name] for name in names] if names else list(ALL)
    install_all(wanted, LIMIT_S)
    return 0


def install_all(wanted: Sequence[Environment], limit_s: float) -> None:
    """Install side by side; what is not done in time is ended, and so is everything on interrupt."""
    started = time.monotonic()
    running = {one: _start(one) for one in wanted}
    try:
        while running and time.monotonic() - started < limit_s:
            for one, process in list(running.items()):
                if process.poll() is not None:
                    del running[one]
                    _say(one, process.returncode, time.monotonic() - started)
            time.sleep(0.1)
    finally:
        for one, process in running.items():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            after_s = time.monotonic() - started
            reason = f"its installation was ended after {after_s:.0f} s of {limit_s:.0f}"
            one.reason_path.write_text(f"{reason}\n")
            _say(one, 1, after_s)


def _start(one: Environment) -> subprocess.Popen[bytes]:
    one.reason_path.parent.mkdir(parents=True, exist_ok=True)
    one.reason_path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.engines.set_up", "--here", one.name]
    return subprocess.Popen(command, start_new_session=True)


def _say(one: Environment, status: int, after_s: float) -> None:
    if status and not one.reason_path.exists():
        one.reason_path.write_text(f"its installation ended with status {status}\n")
    print(one.missing() or f"{one.name}: ready after {after_s:.0f} s", file=sys.stderr)


def _here(name: str) -> int:
    one = next(one for one in ALL if one.name == name)
    try:
        one.have()
    except (UnavailableError, OSError) as fault:
        one.reason_path.write_text(f"{fault}\n")
        return 1
    return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(_here(arguments[1]) if arguments[:1] == ["--here"] else main(arguments))
