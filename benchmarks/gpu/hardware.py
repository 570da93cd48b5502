"""What the experiment ran on: GPUs as nvidia-smi tells them, now and while the load was on."""

from __future__ import annotations

import csv
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean

_TIMEOUT_S = 20
_STOP_S = 5

_TIME, _TIME_FORM = "timestamp", "%Y/%m/%d %H:%M:%S.%f"

# Column of nvidia-smi and our name for it, with its unit.
_COLUMNS = {
    "index": "index",
    "name": "name",
    "driver_version": "driver",
    "memory.total": "memory_total_mib",
    "memory.used": "memory_used_mib",
    "clocks.sm": "sm_clock_mhz",
    "clocks.max.sm": "sm_clock_max_mhz",
    "clocks.mem": "memory_clock_mhz",
    "power.draw": "power_w",
    "power.limit": "power_limit_w",
    "utilization.gpu": "utilization_percent",
    "temperature.gpu": "temperature_c",
}


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU at one moment; what nvidia-smi does not tell is None.

    Attributes:
        index: Its number.
        name: Its name.
        driver: Version of the driver.
        memory_total_mib: Memory in MiB.
        memory_used_mib: Used memory in MiB.
        sm_clock_mhz: Clock of the multiprocessors in MHz.
        sm_clock_max_mhz: The highest that it may have.
        memory_clock_mhz: Clock of the memory in MHz.
        power_w: Power draw in W.
        power_limit_w: Power limit in W.
        utilization_percent: Share of time in which a kernel ran.
        temperature_c: Temperature in degrees Celsius.
    """

    index: int
    name: str
    driver: str | None
    memory_total_mib: float | None
    memory_used_mib: float | None
    sm_clock_mhz: float | None
    sm_clock_max_mhz: float | None
    memory_clock_mhz: float | None
    power_w: float | None
    power_limit_w: float | None
    utilization_percent: float | None
    temperature_c: float | None


class NoGpuError(Exception):
    """There is no GPU that nvidia-smi knows; the message says why."""


def query_command(*, every_s: int | None = None) -> list[str]:
    """Return the call of nvidia-smi: once, or over and over and each line with its time."""
    loop = [] if every_s is None else [f"--loop={every_s}"]
    columns = [*_COLUMNS] if every_s is None else [_TIME, *_COLUMNS]
    return [
        "nvidia-smi",
        f"--query-gpu={','.join(columns)}",
        "--format=csv,noheader,nounits",
        *loop,
    ]


def parse_gpus(text: str) -> list[Gpu]:
    """Read what `query_command` printed, one GPU a line; a line that was cut off is left out."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [gpu for row in rows if (gpu := _gpu(row)) is not None]


def parse_samples(text: str) -> list[tuple[float, Gpu]]:
    """Read what `recording` wrote: (Unix time in s, GPU) of each whole line."""
    samples = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        gpu = _gpu(row[1:])
        if gpu is not None:
            # nvidia-smi tells the machine's local time
            local = datetime.strptime(row[0], _TIME_FORM).astimezone()
            samples.append((local.timestamp(), gpu))
    return samples


def _gpu(row: Sequence[str]) -> Gpu | None:
    if len(row) != len(_COLUMNS):
        return None
    told = dict(zip(_COLUMNS.values(), (_told(cell) for cell in row), strict=True))
    index, name, driver = told.pop("index"), told.pop("name"), told.pop("driver")
    if index is None or not index.isdigit():
        return None
    figures = {column: _number(value) for column, value in told.items()}
    return Gpu(int(index), name or "unknown", driver, **figures)


def _told(cell: str) -> str | None:
    """Return a cell's text, None for what nvidia-smi writes where it knows nothing."""
    text = cell.strip()
    return None if not text or text.startswith("[") or text in ("N/A", "Unknown") else text


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def gpus_now() -> list[Gpu]:
    """Return the GPUs of this machine.

    Raises:
        NoGpuError: If there is none, or no nvidia-smi.
    """
    try:
        done = subprocess.run(
            query_command(), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        msg = f"nvidia-smi does not answer ({fault})"
        raise NoGpuError(msg) from fault
    gpus = parse_gpus(done.stdout)
    if done.returncode or not gpus:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        msg = f"nvidia-smi shows no GPU ({said[-1]})"
        raise NoGpuError(msg)
    return gpus


@contextmanager
def recording(path: Path, *, every_s: int = 1) -> Iterator[None]:
    """Have nvidia-smi write what it sees into a file until the block ends; nothing without one."""
    if shutil.which("nvidia-smi") is None:
        yield
        return
    with path.open("wb") as out:
        process = subprocess.Popen(
            query_command(every_s=every_s),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        process.kill()
        process.wait(_STOP_S)


def under_load(samples: Sequence[Gpu]) -> list[dict[str, object]]:
    """Return clock, power and memory of each GPU over samples of one part; None where untold."""
    return [
        {
            "index": index,
            "samples": len(mine),
            "sm_clock_mhz_mean": _mean([one.sm_clock_mhz for one in mine]),
            "power_w_mean": _mean([one.power_w for one in mine]),
            "power_w_max": _max([one.power_w for one in mine]),
            "utilization_percent_mean": _mean([one.utilization_percent for one in mine]),
            "memory_used_mib_max": _max([one.memory_used_mib for one in mine]),
            "temperature_c_max": _max([one.temperature_c for one in mine]),
        }
        for index in sorted({one.index for one in samples})
        if (mine := [one for one in samples if one.index == index])
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 1) if known else None


def _max(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def machine(gpus: Sequence[Gpu]) -> dict[str, object]:
    """Return the machine in words that identify no one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "gpus": [asdict(gpu) for gpu in gpus],
        "processor": _processor(),
        "cores": os.cpu_count() if affinity is None else len(affinity(0)),
        "memory_gib": _memory_gib(),
        "kernel": platform.release().partition("-")[0],
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def _memory_gib() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError):
        return None
