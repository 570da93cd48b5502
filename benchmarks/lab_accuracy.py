"""Compares what the client recorded with what the lab engines know, over one run folder.

Usage: python benchmarks/lab_accuracy.py RUN

RUN is the folder of `phasemeter demo` or `phasemeter interference --lab`, which holds the engines' own
truth. Prints gap and ttft_wire percentiles of both sides, the errors, and the budgets of the design.
"""

import json
import sys
from pathlib import Path

import numpy as np

from phasemeter.analysis.records import load_run
from phasemeter.core.timeline import Outcome

GAP_P99_BUDGET_MS = 0.2
TTFT_P99_BUDGET_MS = 5.0


def server_truth(folder: Path) -> dict[str, dict[str, dict]]:
    """What the engines wrote, by request and role."""
    truth: dict[str, dict[str, dict]] = {}
    for path in folder.glob("truth-*.jsonl"):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            truth.setdefault(entry["request_id"], {})[entry["role"]] = entry
    return truth


def compare(folder: Path) -> dict[str, np.ndarray]:
    """Samples in ms: true and measured gaps, true and measured ttft_wire, over ok requests."""
    truth = server_truth(folder)
    samples: dict[str, list[float]] = {
        name: [] for name in ("gap", "true_gap", "ttft", "true_ttft")
    }
    for timeline in load_run(folder).timelines:
        roles = truth.get(timeline.request_id, {})
        streamed = roles.get("both") or roles.get("decode")
        if timeline.outcome is not Outcome.OK or streamed is None:
            continue
        received_ns = roles.get("prefill", streamed)["received_ns"]
        samples["true_gap"] += (np.diff(streamed["emit_ns"]) / 1e6).tolist()
        samples["gap"] += [gap_ns / 1e6 for gap_ns, _ in timeline.gaps()]
        samples["true_ttft"].append((streamed["emit_ns"][0] - received_ns) / 1e6)
        samples["ttft"].append((timeline.first_token_ns - timeline.sent_ns) / 1e6)
    return {name: np.array(values) for name, values in samples.items()}


def main() -> None:
    samples = compare(Path(sys.argv[1]))
    print(f"{'':>12} {'p50':>10} {'p90':>10} {'p99':>10} {'max':>10} {'count':>8}   ms")
    for name, values in samples.items():
        figures = " ".join(f"{np.percentile(values, q):10.3f}" for q in (50, 90, 99, 100))
        print(f"{name:>12} {figures} {len(values):8}")
    gap = abs(np.percentile(samples["gap"], 99) - np.percentile(samples["true_gap"], 99))
    ttft = np.percentile(np.abs(samples["ttft"] - samples["true_ttft"]), 99)
    print(f"error of gap p99      {gap:8.4f} ms   budget {GAP_P99_BUDGET_MS} ms")
    print(f"p99 of ttft error     {ttft:8.4f} ms   budget {TTFT_P99_BUDGET_MS} ms")
    print(f"gaps lost to coalescing: {len(samples['true_gap']) - len(samples['gap'])}")


if __name__ == "__main__":
    main()
