"""Random weights, laid out so that small and large batches both run fast on one core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from phasemeter.lab.shape import ModelShape

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

_PANEL_FLOATS = 62_500
"""Largest panel: with it, 16 rows still stay below the size from which OpenBLAS packs."""

_WIDEST_PANEL = 64

PANEL_ROWS = 32
"""Up to this many rows, a product goes panel by panel."""


class Projection:
    """A matrix to multiply rows with, kept twice: whole, and cut into narrow panels.

    BLAS copies a large right-hand side into its own order before it multiplies. For 2 to 16 rows
    that copy costs more than the product; panels are small enough to be used in place. For many
    rows the copy pays, and panels are too narrow. Measured on one AVX-512 core for 512 x 2816:
    4 rows 0.63 ms whole, 0.22 ms in panels; 512 rows 9.3 ms whole, 11.0 ms in panels.

    Args:
        matrix: (rows, columns), columns a multiple of 64.
    """

    def __init__(self, matrix: Floats) -> None:
        rows, columns = matrix.shape
        width = _WIDEST_PANEL
        while width * rows > _PANEL_FLOATS and width > 1:
            width //= 2
        self._whole = matrix
        by_panel = matrix.reshape(rows, columns // width, width).transpose(1, 0, 2)
        self._panels: Floats = np.ascontiguousarray(by_panel)

    def apply(self, left: Floats, out: Floats) -> None:
        """Write `left @ matrix` to `out`, a whole C-ordered (rows, columns) array."""
        if left.shape[0] > PANEL_ROWS:
            np.matmul(left, self._whole, out=out)
            return
        count, _, width = self._panels.shape
        # hot: each panel is one BLAS call that writes straight into its columns of `out`.
        np.matmul(left, self._panels, out=out.reshape(-1, count, width).transpose(1, 0, 2))


@dataclass(frozen=True, slots=True)
class Layer:
    """One block's projections. Norm gains are 1 and so have no array."""

    qkv: Projection
    attention_out: Projection
    gate_up: Projection
    down: Projection


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a model: `embedding` (vocab, hidden), layers, `head` (hidden, vocab)."""

    embedding: Floats
    layers: tuple[Layer, ...]
    head: Floats


def random_weights(shape: ModelShape, seed: int) -> Weights:
    """Draw weights that keep activations at unit scale; equal for equal `shape` and `seed`."""
    rng = np.random.default_rng(seed)
    embedding = rng.standard_normal((shape.vocab, shape.hidden), dtype=np.float32)
    layers = tuple(_random_layer(rng, shape) for _ in range(shape.layers))
    # Logits of standard deviation 2: neither a near-tie everywhere nor one token always.
    head = _random_matrix(rng, shape.hidden, shape.vocab, 2.0)
    return Weights(embedding, layers, head)


def _random_layer(rng: np.random.Generator, shape: ModelShape) -> Layer:
    # Each layer adds two terms to the residual stream: scaled so that the sum stays bounded.
    residual_gain = (2 * shape.layers) ** -0.5
    attended = shape.heads * shape.head_dim
    return Layer(
        qkv=Projection(_random_matrix(rng, shape.hidden, shape.qkv_columns, 1.0)),
        attention_out=Projection(_random_matrix(rng, attended, shape.hidden, residual_gain)),
        gate_up=Projection(_random_matrix(rng, shape.hidden, 2 * shape.ffn, 1.0)),
        down=Projection(_random_matrix(rng, shape.ffn, shape.hidden, residual_gain)),
    )


def _random_matrix(rng: np.random.Generator, rows: int, columns: int, gain: float) -> Floats:
    matrix = rng.standard_normal((rows, columns), dtype=np.float32)
    matrix *= np.float32(gain * rows**-0.5)
    return matrix
