"""The machine of a measurement, in words that identify no one."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil


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
