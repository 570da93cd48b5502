"""The command line as its users have it: a process, its exit status, and what it printed."""

from __future__ import annotations

import json
import subprocess
import sys


def run(*arguments: object, within_s: float = 300) -> tuple[int, str, str]:
    """Run `phasemeter` and return its exit status, standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "phasemeter", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def documents(*arguments: object, folder: object, within_s: float = 300, tries: int = 2):
    """Yield the JSON document of up to so many runs of a command, each in a folder of its own.

    For what another process may blur that has the machine's cores for a while.
    """
    for number in range(1, tries + 1):
        status, out, err = run(*arguments, "-o", f"{folder}-{number}", "--json", within_s=within_s)
        assert status == 0, err
        yield json.loads(out)
