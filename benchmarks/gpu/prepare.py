"""Fetches what a GPU machine without a network lacks: python -m benchmarks.gpu.prepare FOLDER

Run it where the package index can be reached, with the GPU machine's version of Python. The wheels go into the
folder, which is to be carried along with a checkout of this project; the command to run there is printed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
_TIMEOUT_S = 3000
_MIB = 2**20

# pip takes a wheel only for a platform that is named exactly.
_GLIBC = ("5", "12", "17", "24", "26", "27", "28", "31", "34", "35", "39")
_OLD_NAMES = ("manylinux1", "manylinux2010", "manylinux2014")

BACKENDS: Mapping[str, tuple[str, ...]] = {
    "transformers": (
        *("transformers>=5.17", "torch>=2.8", "fastapi>=0.115", "uvicorn>=0.30", "openai>=1.40"),
        "accelerate>=1.0",  # places the model on its device
    ),
    "vllm": ("vllm>=0.11", "nixl>=0.7"),
}
"""What the server needs beside our own requirements."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if everything is there, 1 if the package index does not have it, 2 on bad usage."""
    given = _parser().parse_args(arguments)
    folder: Path = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    installed = "" if given.installed is None else given.installed.read_text(encoding="utf-8")
    there = installed_names(installed)
    wanted = [
        one
        for one in (*our_requirements(("load", "gpu")), *BACKENDS[given.backend])
        if name_of(one) not in there
    ]
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in pinned(installed)), encoding="utf-8")
    command = download_command(folder, wanted, given.python_version, given.machine, constraints)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"benchmarks.gpu.prepare: pip took over {_TIMEOUT_S} s", file=sys.stderr)
        return 1
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = (said or done.stderr.splitlines()[-1:] or ["no message"])[-1]
        print(f"benchmarks.gpu.prepare: {reason}", file=sys.stderr)
        return 1
    left_out = without_installed(folder, there)
    wheels = sorted(folder.glob("*.whl"))
    size = sum(wheel.stat().st_size for wheel in wheels)
    print(f"{len(wheels)} wheels, {size / _MIB:.1f} MiB, in {given.folder}")
    if left_out:
        print(f"already on that machine: {', '.join(left_out)}")
    print("\nThere, in the root of the checkout:\n")
    print(run_command(given.folder))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.prepare", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="where the wheels go")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="transformers")
    parser.add_argument(
        "--python-version",
        default=f"{sys.version_info.major}.{sys.version_info.minor}",
        help="the GPU machine's, for instance 3.12; by default this one's",
    )
    parser.add_argument("--machine", default="x86_64", help="the GPU machine's `uname -m`; x86_64")
    parser.add_argument(
        "--installed",
        type=Path,
        metavar="FILE",
        help="what it has already: its `pip freeze`, or names, one a line",
    )
    return parser


def our_requirements(extras: Iterable[str]) -> list[str]:
    """Return what this project and some of its extras require, without itself."""
    project = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["project"]
    found: dict[str, None] = dict.fromkeys(project["dependencies"])
    open_extras = list(extras)
    while open_extras:
        for requirement in project["optional-dependencies"][open_extras.pop()]:
            if name_of(requirement) != project["name"]:
                found[requirement] = None
            elif inner := re.search(r"\[(.*)\]", requirement):
                open_extras += [one.strip() for one in inner[1].split(",")]
    return list(found)


def name_of(requirement: str) -> str:
    """Return the normalised name of a requirement, of a line of `pip freeze` or of a wheel's file."""
    name = re.split(r"[\s\[<>=!~;@]", requirement.strip(), maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_names(listed: str) -> set[str]:
    """Return the names in a `pip freeze`, or in a list of names."""
    return {name_of(line) for line in _lines(listed)}


def pinned(listed: str) -> list[str]:
    """Return the lines that tell a version, so that what is fetched fits to what is there.

    Local versions, such as those of a build for one version of CUDA, are on no index and left out.
    """
    return [line for line in _lines(listed) if "==" in line and "+" not in line and "@" not in line]


def _lines(listed: str) -> list[str]:
    return [line for raw in listed.splitlines() if (line := raw.partition("#")[0].strip())]


def platforms(machine: str) -> list[str]:
    """Return the platforms whose wheels run on a Linux machine of today."""
    names = [*_OLD_NAMES, *(f"manylinux_2_{minor}" for minor in _GLIBC), "linux"]
    return [f"{name}_{machine}" for name in names]


def download_command(
    folder: Path, wanted: Sequence[str], python_version: str, machine: str, constraints: Path
) -> list[str]:
    """Return the call of pip that fetches wheels for another machine."""
    return [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--only-binary=:all:", "--implementation", "cp", "--python-version", python_version),
        *(word for name in platforms(machine) for word in ("--platform", name)),
        *("--constraint", str(constraints), "--dest", str(folder)),
        *wanted,
    ]


def without_installed(folder: Path, there: set[str]) -> list[str]:
    """Remove wheels of what the machine has already; return their names."""
    removed = []
    for wheel in sorted(folder.glob("*.whl")):
        name = name_of(wheel.name.partition("-")[0])
        if name in there:
            wheel.unlink()
            removed.append(name)
    return removed


def run_command(folder: Path) -> str:
    """Return the one command for the GPU machine, in the root of a checkout."""
    site = "build/gpu-site"
    return (
        f"python3 -m pip install --quiet --no-index --no-deps --no-compile --target {site} "
        f"{folder}/*.whl && PYTHONPATH=src:{site} python3 -m benchmarks.gpu.run "
        "--output build/gpu-run --archive build/gpu-run.tar.gz"
    )


if __name__ == "__main__":
    sys.exit(main())
