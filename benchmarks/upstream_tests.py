"""The openai and anthropic libraries' own streaming tests, bare and with `phasemeter.instrument()` on.

    python -m benchmarks.upstream_tests CHECKOUT [--python ENVIRONMENT/bin/python] [PYTEST ARGUMENT ...]

CHECKOUT is the source of openai-python or anthropic-sdk-python at a release; the interpreter's environment
holds the same release, what its tests need, and phasemeter. Both runs must give the same outcome for each
test. Exit status 1 where they do not, or where nothing was timed: then nothing would have been shown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/test_client.py",
    "tests/test_legacy_response.py",
    "tests/test_response.py",
    "tests/test_streaming.py",
    "tests/lib/chat",
    "tests/lib/responses",
    "tests/lib/streaming",
    "tests/lib/tools/test_runners.py",
    "tests/lib/test_azure.py",
    "tests/lib/test_bedrock.py",
    "tests/lib/test_vertex.py",
)
_TIMEOUT_S = 900


def outcomes(report: Path) -> dict[str, str]:
    """Return each test's outcome from a JUnit report; for one that was not passed also its message."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        told = next(iter(case), None)
        message = "" if told is None else (told.get("message") or "").splitlines()[:1]
        found[name] = "passed" if told is None else f"{told.tag} {''.join(message)[:200]}"
    return found


def run(
    python: Path, checkout: Path, more: Sequence[str], *, timed: bool
) -> tuple[dict[str, str], int]:
    """Run the tests; (outcome of each, responses that were timed)."""
    with tempfile.TemporaryDirectory() as folder:
        report, count = Path(folder) / "report.xml", Path(folder) / "count"
        command = [str(python), "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", *(["-p", "benchmarks.instrumented"] if timed else [])]
        command += [*(one for one in TESTS if (checkout / one).exists()), *more]
        search = [str(ROOT / "src"), str(ROOT)]
        done = subprocess.run(
            command,
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(search),
                "PHASEMETER_STRICT": "1",
                "PHASEMETER_UPSTREAM_COUNT": str(count),
            },
        )
        if not report.exists():
            msg = f"pytest gave no report:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            raise SystemExit(msg)
        return outcomes(report), int(count.read_text()) if count.exists() else 0


def differences(bare: Mapping[str, str], timed: Mapping[str, str]) -> list[str]:
    """Return a line for each test whose outcome differs."""
    names = sorted({*bare, *timed})
    return [
        f"{name}: bare {bare.get(name, 'absent')}, timed {timed.get(name, 'absent')}"
        for name in names
        if bare.get(name) != timed.get(name)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    chosen, more = parser.parse_known_args(arguments)
    if not (chosen.checkout / "tests").is_dir():
        parser.error(f"CHECKOUT: {chosen.checkout} has no folder tests")
    bare, _ = run(chosen.python, chosen.checkout, more, timed=False)
    timed, responses = run(chosen.python, chosen.checkout, more, timed=True)
    differing = differences(bare, timed)
    counts = Counter(outcome.partition(" ")[0] for outcome in bare.values())
    told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    print(f"{chosen.checkout.name}: {len(bare)} tests bare ({told})")
    print(f"  with instrument(): {len(differing)} differ; {responses} responses timed")
    for line in differing:
        print(f"  {line}")
    return 1 if differing or not responses else 0


if __name__ == "__main__":
    raise SystemExit(main())
