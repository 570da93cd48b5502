import numpy as np
import pytest

from phasemeter.lab.shape import shape_of
from phasemeter.lab.weights import PANEL_ROWS, Projection, random_weights


@pytest.mark.parametrize("rows", [1, 2, 16, PANEL_ROWS, PANEL_ROWS + 1, 100])
@pytest.mark.parametrize("shape", [(64, 128), (768, 192), (1920, 64)])
def test_a_projection_is_a_matrix_product(rows, shape):
    """Panels of any width, and the whole matrix, give what numpy's product gives."""
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal(shape, dtype=np.float32)
    left = rng.standard_normal((rows, shape[0]), dtype=np.float32)
    out = np.empty((rows, shape[1]), dtype=np.float32)

    Projection(matrix).apply(left, out)

    np.testing.assert_allclose(out, left @ matrix, rtol=1e-4, atol=1e-3)


def test_a_strided_left_side_is_fine():
    """The gated half of a wider array is multiplied without a copy."""
    wide = np.random.default_rng(2).standard_normal((40, 256), dtype=np.float32)
    matrix = np.random.default_rng(3).standard_normal((128, 64), dtype=np.float32)
    for rows in (3, 40):
        out = np.empty((rows, 64), dtype=np.float32)

        Projection(matrix).apply(wide[:rows, 128:], out)

        np.testing.assert_allclose(out, wide[:rows, 128:] @ matrix, rtol=1e-4, atol=1e-3)


def test_equal_seeds_give_equal_weights():
    """Two processes with one seed can exchange KV caches; another seed is another model."""
    first, second, other = (random_weights(shape_of("tiny"), seed) for seed in (5, 5, 6))

    assert np.array_equal(first.head, second.head)
    assert np.array_equal(first.embedding, second.embedding)
    assert not np.array_equal(first.head, other.head)
