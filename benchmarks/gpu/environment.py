"""What the server's interpreter has: which modules can be imported, and their versions."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

_TIMEOUT_S = 60
_MODULES = ("vllm", "nixl", "transformers", "torch", "fastapi", "uvicorn", "openai", "flash_attn")
_PACKAGES = (
    *("vllm", "nixl", "transformers", "torch", "tokenizers", "triton", "fastapi", "uvicorn"),
    *("openai", "flash-attn", "kernels"),
)

# Nothing heavy is imported: only looked for.
_PROGRAM = """
import importlib.metadata, importlib.util, json, platform, sys
modules, packages = json.loads(sys.argv[1])
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
print(json.dumps({
    "importable": {name: importlib.util.find_spec(name) is not None for name in modules},
    "versions": {"python": platform.python_version()}
    | {name: found for name in packages if (found := version(name)) is not None},
}))
"""


class NoInterpreterError(Exception):
    """The interpreter cannot be run; the message says why."""


@dataclass(frozen=True, slots=True)
class ServerEnvironment:
    """What an interpreter has.

    Attributes:
        importable: Whether each module of interest is there.
        versions: Versions of the packages that are, and of Python.
    """

    importable: dict[str, bool]
    versions: dict[str, str]


def look_into(python: str) -> ServerEnvironment:
    """Ask an interpreter what it has.

    Raises:
        NoInterpreterError: If it does not answer.
    """
    try:
        done = subprocess.run(
            [python, "-c", _PROGRAM, json.dumps([_MODULES, _PACKAGES])],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as fault:
        msg = f"{python} does not tell what it has ({fault})"
        raise NoInterpreterError(msg) from fault
    return ServerEnvironment(found["importable"], found["versions"])
