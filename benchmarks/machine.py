"""The machine and the day of a measurement, in words that identify no one."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import psutil

from phasemeter.core.clock import NS_PER_S, PROCESS_ANCHOR, now_ns


def describe() -> dict[str, str]:
    """Return processor, cores, memory, kernel, governor and Python of this machine."""
    return {
        "processor": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "kernel": platform.release().partition("-")[0],
        "governor": _governor(),
        "python": platform.python_version(),
    }


def today() -> str:
    """Return the day, as ISO 8601 has it."""
    unix_s = PROCESS_ANCHOR.unix_ns_at(now_ns()) // NS_PER_S
    return datetime.fromtimestamp(unix_s, UTC).date().isoformat()


def commit_of(folder: Path) -> str:
    """Return the short name of the commit that is checked out, or `unknown`."""
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def _cpu_model() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _governor() -> str:
    lines = _lines(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
    return lines[0] if lines else "not shown (virtual machine)"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
