"""Measure what the model costs: FLOP/s of prefill by length and of decode by batch size.

`python -m phasemeter.lab.physics` prints the table, with each one's share of what a large matrix product
reaches on the same core: the nearest to MFU where no data sheet names a peak. The point of the lab engine
is that prefill runs near the core's peak and decode far below it; this is where that is checked.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from phasemeter.lab.kvcache import KVCache
from phasemeter.lab.model import MAX_ROWS, Model, Segment
from phasemeter.lab.shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from phasemeter.lab.config import ModelSize
    from phasemeter.lab.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Cost:
    """Best observed cost of one piece of work.

    Attributes:
        phase: `prefill` or `decode`; `matmul` is the product of two square matrices.
        size: Prompt tokens, sequences in the decode step, or rows of the matrices.
        elapsed_ns: Shortest of the repetitions.
        flops_per_s: Floating-point operations, by formula, over that time.
    """

    phase: str
    size: int
    elapsed_ns: int
    flops_per_s: float


def measure_physics(
    model_size: ModelSize = "base",
    *,
    prompts: Sequence[int] = (512, 1024, 2048),
    batches: Sequence[int] = (1, 2, 4, 8, 16),
    context_tokens: int = 256,
    repeats: int = 5,
    matmul_rows: int = 2048,
) -> list[Cost]:
    """Time the model alone, without scheduler and HTTP, on one BLAS thread.

    Args:
        model_size: Which preset.
        prompts: Prompt lengths in tokens, each prefilled whole into an empty slot.
        batches: Numbers of sequences decoded together.
        context_tokens: Tokens already cached by each decoded sequence.
        repeats: Repetitions, of which the fastest counts.
        matmul_rows: Size of the matrix product that stands for the core's peak.
    """
    with threadpool_limits(1):
        bench = _Bench(shape_of(model_size), max(*prompts, context_tokens + 1), max(batches))
        costs = [_matmul(matmul_rows, repeats)]
        costs += [bench.prefill(tokens, repeats) for tokens in prompts]
        # A decode step is short: more repetitions cost little and steady the minimum.
        return costs + [bench.decode(batch, context_tokens, 4 * repeats) for batch in batches]


class _Bench:
    def __init__(self, shape: ModelShape, max_len: int, slots: int) -> None:
        self._shape = shape
        self._model = Model(shape, 0, max_len)
        self._cache = KVCache.private(shape, slots, max_len)
        self._cache.keys[...] = 0.1
        self._cache.values[...] = 0.1

    def prefill(self, tokens: int, repeats: int) -> Cost:
        prompt = np.arange(tokens, dtype=np.int32) % 256
        passes = [
            [Segment(0, first, prompt[first : first + MAX_ROWS], wants_logits=True)]
            for first in range(0, tokens, MAX_ROWS)
        ]
        flops = self._shape.forward_flops(tokens, 0, 1)
        return _cost("prefill", tokens, flops, lambda: self._run(passes), repeats)

    def decode(self, batch: int, context_tokens: int, repeats: int) -> Cost:
        token = np.zeros(1, dtype=np.int32)
        step = [Segment(slot, context_tokens, token, wants_logits=True) for slot in range(batch)]
        flops = batch * self._shape.forward_flops(1, context_tokens, 1)
        return _cost("decode", batch, flops, lambda: self._run([step]), repeats)

    def _run(self, passes: Sequence[Sequence[Segment]]) -> None:
        for segments in passes:
            for _ in self._model.forward(segments, self._cache):
                pass


def _matmul(rows: int, repeats: int) -> Cost:
    left = np.full((rows, rows), 0.5, dtype=np.float32)
    into = np.empty_like(left)
    return _cost("matmul", rows, 2 * rows**3, lambda: np.matmul(left, left, out=into), repeats)


def _cost(phase: str, size: int, flops: int, work: Callable[[], object], repeats: int) -> Cost:
    work()
    elapsed_ns = []
    for _ in range(repeats):
        started_ns = time.perf_counter_ns()
        work()
        elapsed_ns.append(time.perf_counter_ns() - started_ns)
    best_ns = min(elapsed_ns)
    return Cost(phase, size, best_ns, flops * 1e9 / best_ns)


def format_costs(costs: Sequence[Cost]) -> str:
    """Return a plain-text table, one line a cost, ending in a line feed."""
    peak = next(cost.flops_per_s for cost in costs if cost.phase == "matmul")
    lines = [f"{'phase':8} {'size':>5} {'ms':>9} {'GFLOP/s':>8} {'of matmul':>9}"]
    lines += [
        f"{cost.phase:8} {cost.size:5} {cost.elapsed_ns / 1e6:9.2f} {cost.flops_per_s / 1e9:8.1f} "
        f"{cost.flops_per_s / peak:9.1%}"
        for cost in costs
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(format_costs(measure_physics()))
