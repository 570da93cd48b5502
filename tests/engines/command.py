"""The command line as its users have it: a process, its exit status, and what it printed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


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


def documents(
    arguments: Callable[[], Sequence[object]],
    *,
    folder: Path,
    within_s: float = 300,
    tries: int = 2,
) -> Iterator[dict[str, Any]]:
    """Yield the JSON document of up to so many runs of a command, each in a folder of its own.

    For what another process may blur that has the machine's cores for a while; only the last run has
    to be one that shows something.

    Args:
        arguments: Makes the command's arguments, anew for each run.
        folder: Where the runs go, with a number appended.
        within_s: Time limit of one run.
        tries: How many runs there are at most.
    """
    for number in range(1, tries + 1):
        status, out, err = run(
            *arguments(), "-o", f"{folder}-{number}", "--json", within_s=within_s
        )
        assert status == 0 or (status == 3 and number < tries), err
        yield json.loads(out)


def prompts_per_s(url: str, prompt_tokens: int, share: float) -> float:
    """Return how many prompts a second keep an idle server busy for a share of its time.

    Machines, and what else they do, differ by five times and more. At least 1.2, should other work end
    the moment after it has slowed this down; at most 3.
    """
    with tempfile.TemporaryDirectory() as folder:
        status, out, err = run(
            *("load", url, "--users", 1, "--requests", 6, "--mix", f"all=100%:{prompt_tokens}/1"),
            *("-o", folder, "--json"),
        )
    assert status == 0, err
    seconds = json.loads(out)["metrics"]["ttft_wire"]["p50"] / 1_000
    return round(min(max(share / seconds, 1.2), 3.0), 2)
