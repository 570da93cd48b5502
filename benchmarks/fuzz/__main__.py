"""Checks random splits and mutations of recorded responses.

Usage: python -m benchmarks.fuzz [--cases 1000000] [--seed N] [--first N] [--jobs N]

Every case follows from the seed and its number: a case that fails is told with both, and run again with
--seed SEED --first NUMBER --cases 1.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.fuzz.checks import check_case
from phasemeter.core.clock import NS_PER_S, now_ns

_SLICE = 500
_MOST_TOLD = 10


def failures_in(seed: int, first: int, cases: int) -> list[tuple[int, str]]:
    """Return (number, what went wrong) for the cases of a range that fail."""
    failures = []
    for number in range(first, first + cases):
        try:
            check_case(seed, number)
        except Exception as fault:  # noqa: BLE001 - to find them is what this is for
            said = str(fault) or type(fault).__name__
            where = traceback.extract_tb(fault.__traceback__)[-1]
            failures.append((number, f"{type(fault).__name__} at {where.name}: {said[:2000]}"))
    return failures


def main() -> int:
    """Run the cases; 1 if one of them fails."""
    options = _options()
    console = Console(stderr=True)
    console.print(f"seed {options.seed}, {options.cases:,} cases from number {options.first}")
    slices = [
        (start, min(_SLICE, options.first + options.cases - start))
        for start in range(options.first, options.first + options.cases, _SLICE)
    ]
    failures: list[tuple[int, str]] = []
    begun_ns = now_ns()
    pool = ProcessPoolExecutor(options.jobs) if options.jobs > 1 else None
    with pool or nullcontext(), _progress(console) as progress:
        task = progress.add_task("fuzz", total=options.cases)
        run = map if pool is None else pool.map
        starts, sizes = zip(*slices, strict=True)
        seeds = [options.seed] * len(slices)
        for (_, size), found in zip(slices, run(failures_in, seeds, starts, sizes), strict=True):
            failures += found
            progress.advance(task, size)
            if len(failures) >= _MOST_TOLD:
                break
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    took_s = (now_ns() - begun_ns) / NS_PER_S
    for number, said in failures[:_MOST_TOLD]:
        print(f"case {number} of seed {options.seed}: {said}")
        print(
            f"  again: python -m benchmarks.fuzz --seed {options.seed} --first {number} --cases 1"
        )
    if not failures:
        print(f"{options.cases:,} cases of seed {options.seed} in {took_s:.0f} s: nothing found")
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000_000))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    if options.cases < 1 or options.first < 0 or options.jobs < 1:
        parser.error("--cases and --jobs: at least 1, --first: at least 0")
    return options


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    )


if __name__ == "__main__":
    sys.exit(main())
