"""The surface and lifecycle tests against old and new releases of the client libraries.

    python -m benchmarks.client_versions [--folder build/clients] [NAME ...]

Each set of releases gets a virtual environment of its own, made once. Tests for what a release lacks are
left out by tests/clients/surfaces.py. Exit status 1 if a test fails anywhere.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.environment import ensure

ROOT = Path(__file__).parents[1]
TESTS = ("tests/clients/test_surfaces.py", "tests/clients/test_lifecycle.py")
RELEASES: dict[str, tuple[str, ...]] = {
    "oldest": ("openai==1.40.0", "anthropic==0.40.0", "httpx==0.27.2"),
    "openai-1": ("openai==1.109.1", "anthropic==0.75.0", "httpx==0.28.1"),
    "openai-2": ("openai==2.54.0", "anthropic==0.125.0", "httpx==0.28.1"),
    "openai-3.0": ("openai==3.0.0", "anthropic==1.17.0"),
    "newest": ("openai", "anthropic", "httpx", "httpx2"),
}
_TIMEOUT_S = 900


def run(python: Path) -> tuple[int, str, str]:
    """Run the tests; (exit status, installed releases, last line of pytest)."""
    versions = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    ).stdout
    found = re.findall(r"^(?:openai|anthropic|httpx2?|httpcore2?)==.*$", versions, re.MULTILINE)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--tb=short", *TESTS],
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:], file=sys.stderr)
    return done.returncode, " ".join(found), done.stdout.strip().splitlines()[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RELEASES)}")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "clients")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.names) - set(RELEASES)
    if unknown:
        parser.error(
            f"NAME: {', '.join(sorted(unknown))} not known; accepted: {', '.join(RELEASES)}"
        )
    worst = 0
    for name in chosen.names or RELEASES:
        here = [f"{ROOT}[otel]", "--group", f"{ROOT}/pyproject.toml:test"]
        ensure(
            chosen.folder / name, ["--upgrade", "pip>=25.1"], [*RELEASES[name], "--editable", *here]
        )
        status, found, told = run(chosen.folder / name / "bin" / "python")
        worst = max(worst, status)
        print(f"{name}: {found}\n  {told}", flush=True)
    return 1 if worst else 0


if __name__ == "__main__":
    raise SystemExit(main())
