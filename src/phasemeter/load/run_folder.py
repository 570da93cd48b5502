"""The run folder: made before anything is measured, so that an unwritable place costs no run."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from phasemeter.core.clock import PROCESS_ANCHOR
from phasemeter.core.errors import UsageError

SCHEMA_VERSION = 1

_AFTER_THE_PATH = re.compile(r"(?<=\S)[?#].*?(?=,[\w-]+=\w+:|$)")


def create(folder: Path | None, kind: str) -> Path:
    """Make a new run folder.

    Args:
        folder: Where; it must not exist yet or be empty. None makes one under `runs/`, named by the
            time.
        kind: What kind of run, for the default name.

    Raises:
        UsageError: If the folder holds something already or cannot be made or written.
    """
    if folder is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = Path("runs") / f"{kind}-{stamp}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            msg = f"-o {folder}: is not empty; accepted: a new or empty folder"
            raise UsageError(msg)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as fault:
        msg = f"-o {folder}: cannot be written ({fault.strerror}); accepted: a writable folder"
        raise UsageError(msg) from fault
    return folder


def write_manifest(folder: Path, kind: str, about: Mapping[str, object]) -> None:
    """Write `run.json`: what was asked for, with what, where; secrets are not among it."""
    manifest = {
        "schema": SCHEMA_VERSION,
        "kind": kind,
        "run_id": folder.resolve().name,
        "command": redacted(sys.argv),
        "phasemeter": version("phasemeter"),
        "created_unix_ns": PROCESS_ANCHOR.unix_ns,
        "anchor": {
            "monotonic_ns": PROCESS_ANCHOR.monotonic_ns,
            "unix_ns": PROCESS_ANCHOR.unix_ns,
        },
        "host": host_facts(),
        **about,
    }
    partial = folder / "run.json.part"
    partial.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    partial.replace(folder / "run.json")


def append_mark(folder: Path, mark: Mapping[str, object]) -> None:
    """Append a line to `marks.jsonl`: which phase of which arm lasted from when to when."""
    with (folder / "marks.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(mark) + "\n")


def redacted(arguments: list[str]) -> list[str]:
    """Return a command line without the values of headers and queries, which may hold keys."""
    kept = [Path(arguments[0]).name]
    for before, argument in pairwise(arguments):
        if before in ("--header", "-H"):
            kept.append("REDACTED")
        elif argument.startswith("--header="):
            kept.append("--header=REDACTED")
        elif argument.startswith("-H"):
            kept.append("-H" if argument == "-H" else "-HREDACTED")
        else:
            kept.append(_AFTER_THE_PATH.sub("?REDACTED", argument))
    return kept


def host_facts() -> dict[str, object]:
    """Return what may matter of this machine; a fact that cannot be read is null."""
    return {
        "kernel": platform.release(),
        "system": platform.system(),
        "python": platform.python_version(),
        "cpu_model": _cpu_model(),
        "cores": os.cpu_count(),
        "governor": _governor(),
    }


def _governor() -> str | None:
    """Return what decides on the cores' clock rate, of all cores; None where that is not told."""
    paths = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    told = {_read(str(path)) for path in paths} - {None}
    return ", ".join(sorted(map(str, told))) or None


def _cpu_model() -> str | None:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
