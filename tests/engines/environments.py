"""Where the real engines lie: vLLM, Phoenix and Prometheus, each below `build/`, and how they come there.

An environment that is complete is used again; one that cannot be had leaves its reason, in one line, for
whoever skips because of it.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.environment import ensure, run
from benchmarks.peers.tool import UnavailableError
from benchmarks.peers.vllm_bench import VllmBench

BUILD = Path(__file__).parents[2] / "build"
REASONS = BUILD / "engines"
NIXL_REASON = REASONS / "nixl.unavailable"
GB = 10**9


@dataclass(frozen=True, slots=True)
class Environment:
    """One engine.

    Attributes:
        name: Short name.
        folder: Where it lies.
        programs: What must be there for it to be complete, relative to the folder.
        needs_bytes: Free space that its installation takes.
        install: Has it there, or raises UnavailableError with the reason.
    """

    name: str
    folder: Path
    programs: tuple[str, ...]
    needs_bytes: int
    install: Callable[[Path], None]

    def program(self, name: str) -> Path:
        """Return the path of one of its programs."""
        return next(self.folder / one for one in self.programs if Path(one).name == name)

    @property
    def reason_path(self) -> Path:
        """File with the reason why it cannot be had."""
        return REASONS / f"{self.name}.unavailable"

    def missing(self) -> str | None:
        """Return why it cannot be used, or None where it can."""
        if self.reason_path.is_file():
            return f"{self.name}: {self.reason_path.read_text().strip()}"
        if not all((self.folder / one).exists() for one in self.programs):
            return f"{self.name}: not set up; `make engines` does it"
        return None

    def have(self) -> None:
        """Install it unless it is there.

        Raises:
            UnavailableError: If it cannot be had.
        """
        parent = next(one for one in self.folder.parents if one.is_dir())
        complete = all((self.folder / one).exists() for one in self.programs)
        free = shutil.disk_usage(parent).free
        if not complete and free < self.needs_bytes:
            msg = f"needs {self.needs_bytes / GB:.0f} GB of disk, {free / GB:.1f} GB are free"
            raise UnavailableError(msg)
        self.install(self.folder)


def _vllm(folder: Path) -> None:
    """The CPU build of vLLM, in the environment that the comparison of load testers has too."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        msg = f"the CPU build is for Linux on x86-64, this is {platform.system()} on {platform.machine()}"
        raise UnavailableError(msg)
    if " avx2 " not in Path("/proc/cpuinfo").read_text():
        msg = "the CPU build needs a processor with AVX2"
        raise UnavailableError(msg)
    VllmBench().install(folder)
    _nixl(folder)


def _nixl(folder: Path) -> None:
    """What moves KV caches between two instances; without it vLLM is whole, so the reason is kept.

    The build for CUDA also runs, and moves host memory, where there is no GPU.
    """
    NIXL_REASON.unlink(missing_ok=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    try:
        run([*pip, "install", "--quiet", "--no-deps", "nixl-cu12==1.5.1", "nixl==1.5.2"])
        run([str(folder / "bin" / "python"), "-c", "import nixl"])
    except UnavailableError as fault:
        NIXL_REASON.parent.mkdir(parents=True, exist_ok=True)
        NIXL_REASON.write_text(f"nixl: {fault}\n")


def nixl_missing() -> str | None:
    """Return why KV caches cannot be moved between instances, or None where they can."""
    if NIXL_REASON.is_file():
        return NIXL_REASON.read_text().strip()
    if not any(VLLM.folder.glob("lib/python3*/site-packages/nixl")):
        return "nixl: not set up; `make engines` does it"
    return None


def _phoenix(folder: Path) -> None:
    """Arize Phoenix, a trace store that takes OTLP and is one process with a file beside it."""
    ensure(folder, ["arize-phoenix==20.26.1"])


def _prometheus(folder: Path) -> None:
    """Debian's package, unpacked and not installed: no service is started."""
    if (folder / "usr" / "bin" / "prometheus").exists():
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        msg = "comes from Debian's package, and there is no apt-get here"
        raise UnavailableError(msg)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Downloading needs no rights; without them apt would only warn that it cannot change user.
    download = ["apt-get", "-o", "APT::Sandbox::User=root", "download", "prometheus"]
    try:
        run(download, folder=folder)
    except UnavailableError:
        run(["apt-get", "update"])  # a new machine has no list of packages yet
        run(download, folder=folder)
    package = next(folder.glob("prometheus_*.deb"))
    run(["dpkg", "-x", str(package), str(folder)])
    package.unlink()


VLLM = Environment(
    "vllm", BUILD / "bench" / "vllm-bench", (".installed", "bin/vllm", "bin/python"), 6 * GB, _vllm
)
PHOENIX = Environment(
    "phoenix", BUILD / "engines" / "phoenix", (".installed", "bin/phoenix"), 2 * GB, _phoenix
)
PROMETHEUS = Environment(
    "prometheus",
    BUILD / "engines" / "prometheus",
    ("usr/bin/prometheus", "usr/bin/promtool"),
    GB // 4,
    _prometheus,
)
ALL = (VLLM, PHOENIX, PROMETHEUS)
