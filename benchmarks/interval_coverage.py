"""How often the experiment's 95 % intervals hold what is true, on simulated engines.

Usage: python -m benchmarks.interval_coverage [--runs 400]

For each engine many runs are made and analysed. What is true is known (a prompt token's cost) or taken from
all runs together. A table tells for each statistic how many intervals were given and how many of them held
the truth.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from benchmarks.simulated_engine import Engine, simulate
from phasemeter.analysis.finding import Finding
from phasemeter.analysis.ramp_levels import Estimate
from phasemeter.experiments.interference import analyse

ENGINES = {
    "steady": Engine(),
    "drifting": Engine(drift=0.25, memory=0.98, hiccup_rate=0.01),
    "no effect": Engine(prefill_ms_per_token=0.0),
}
FACTORS = ("gap_p50", "gap_p99", "longest_exposed_gap")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How intervals of one statistic came out.

    Attributes:
        truth: What they should hold.
        given: Intervals that were given.
        held: Those that held it.
    """

    truth: float
    given: int
    held: int

    @property
    def share(self) -> float:
        """Share of the intervals that held the truth."""
        return self.held / self.given if self.given else float("nan")


def estimates_of(finding: Finding) -> dict[str, Estimate]:
    """Return the statistics whose intervals are looked at."""
    factors = {factor.name: factor for factor in finding.factors}
    found = {}
    for name in FACTORS:
        factor = factors[f"mixed.inject.background.{name}"]
        found[name] = Estimate(factor.value, factor.ci95)
    (effect,) = finding.effects
    found["lost_ms_per_prompt_token"] = effect.lost_ms_per_prompt_token
    found["lost_share"] = effect.lost_share
    return found


def coverages(engine: Engine, runs: int) -> dict[str, Coverage]:
    """Simulate and analyse runs of an engine; return the coverage by statistic."""
    found: dict[str, list[Estimate]] = defaultdict(list)
    for seed in range(runs):
        for name, estimate in estimates_of(analyse(simulate(engine, seed))).items():
            found[name].append(estimate)
    return {name: coverage(engine, name, estimates) for name, estimates in found.items()}


def coverage(engine: Engine, name: str, estimates: list[Estimate]) -> Coverage:
    """Return how many intervals hold what is true: the cost itself, or the median over all runs."""
    if name == "lost_ms_per_prompt_token":
        truth = engine.prefill_ms_per_token
    else:
        truth = float(np.median([one.value for one in estimates if one.value is not None]))
    given = [one.ci95 for one in estimates if one.ci95 is not None]
    return Coverage(truth, len(given), sum(lo <= truth <= hi for lo, hi in given))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=400)
    arguments = parser.parse_args()
    print(f"{'engine':<10} {'statistic':<26} {'truth':>8} {'intervals':>9} {'held it':>8}")
    for engine_name, engine in ENGINES.items():
        for name, one in coverages(engine, arguments.runs).items():
            print(
                f"{engine_name:<10} {name:<26} {one.truth:8.3f} {one.given:9} {one.share:8.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
