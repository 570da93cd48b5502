"""Fuzzing that follows coverage, with atheris: longer searches than the seeded cases, off the same checks.

Usage: python -m benchmarks.fuzz.guided [--seconds 60] [--corpus FOLDER]

Needs atheris (`pip install --group fuzz`). The recorded responses are where it starts; what it finds on
the way is kept in the corpus folder, and an input that fails in a file that atheris names.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["phasemeter"]):
    from benchmarks.fuzz.checks import check_bytes
    from benchmarks.fuzz.wire import FRAMINGS, load_responses
    from phasemeter.dialects import BUILTIN

_CHOICES_BYTES = 2  # dialect, seed of splits and ending


def one_input(data: bytes) -> None:
    """Check the bytes of one response; the first two choose how it is read."""
    if len(data) >= _CHOICES_BYTES:
        dialect = BUILTIN[data[0] % len(BUILTIN)]
        check_bytes(data[_CHOICES_BYTES:], dialect, Random(data[1]))


def write_corpus(folder: Path) -> None:
    """Write the recorded responses, each in one framing, as inputs to start from."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [dialect.name for dialect in BUILTIN]
    for number, response in enumerate(load_responses()):
        wire = response.wire(FRAMINGS[number % len(FRAMINGS)], Random(number))
        choices = bytes([names.index(response.dialect.name), number % 256])
        (folder / response.name).write_bytes(choices + wire)


def main() -> None:
    """Search for so long; atheris ends the process, with 77 for an input that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz-corpus"))
    options = parser.parse_args()
    write_corpus(options.corpus)
    limits = [f"-max_total_time={options.seconds}", "-timeout=20", "-max_len=16384"]
    artifacts = f"-artifact_prefix={options.corpus.parent}/"
    atheris.Setup([sys.argv[0], *limits, artifacts, str(options.corpus)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
