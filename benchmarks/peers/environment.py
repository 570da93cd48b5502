"""Virtual environments of the tools: made once, and again when what they are made of changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks.peers.tool import UnavailableError

_MARK = ".installed"
_TIMEOUT_S = 1800


def ensure(environment: Path, *installs: list[str], python: str = sys.executable) -> bool:
    """Have a virtual environment in which the `pip install` calls were made.

    Args:
        environment: Its folder.
        installs: Arguments of each call.
        python: Interpreter to make it with.

    Returns:
        True if it was made now, False if it was there.

    Raises:
        UnavailableError: If an installation fails; its last line of error is the reason.
    """
    wanted = "\n".join(" ".join(one) for one in installs)
    mark = environment / _MARK
    if mark.is_file() and mark.read_text() == wanted:
        return False
    shutil.rmtree(environment, ignore_errors=True)
    run([python, "-m", "venv", str(environment)])
    for arguments in installs:
        pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        run([*pip, "install", "--quiet", *arguments])
    mark.write_text(wanted)
    return True


def run(command: list[str], *, folder: Path | None = None) -> str:
    """Run a command of an installation, in a folder, and return what it printed.

    Raises:
        UnavailableError: If it fails.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={**os.environ, "PIP_NO_INPUT": "1"},
            cwd=folder,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        msg = f"{Path(command[0]).name}: {fault}"
        raise UnavailableError(msg) from fault
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        last = ([line for line in said if line.startswith("ERROR")] or said)[-1]
        msg = f"could not be installed: {last.strip()[:200]}"
        raise UnavailableError(msg)
    return done.stdout


def newer_python(oldest: tuple[int, int]) -> str | None:
    """Return an interpreter of at least that version: this one, one on the path, or one of pyenv's."""
    if sys.version_info >= oldest:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(oldest[1], oldest[1] + 4):
        name = f"python{oldest[0]}.{minor}"
        found = [shutil.which(name), *map(str, pyenv.glob(f"{oldest[0]}.{minor}.*/bin/{name}"))]
        for python in filter(None, found):
            with suppress(UnavailableError):  # on the path, yet not selected: pyenv's shims
                run([python, "-c", "import venv"])
                return python
    return None


def version_of(environment: Path, package: str) -> str:
    """Return the version of a distribution in an environment, or `unknown`."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    try:
        return run([str(environment / "bin" / "python"), "-c", code]).strip()
    except UnavailableError:
        return "unknown"
