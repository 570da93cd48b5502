import numpy as np
import pytest

from phasemeter.lab.attention import QUERY_BLOCK, Attention
from phasemeter.lab.shape import shape_of

SHAPE = shape_of("tiny")
MAX_LEN = 400


def arrays(tokens, context):
    rng = np.random.default_rng(tokens * 1000 + context)
    query_shape = (tokens, SHAPE.kv_heads, SHAPE.group, SHAPE.head_dim)
    queries = rng.standard_normal(query_shape, dtype=np.float32)
    keys = rng.standard_normal((SHAPE.kv_heads, SHAPE.head_dim, context), dtype=np.float32)
    values = rng.standard_normal((SHAPE.kv_heads, context, SHAPE.head_dim), dtype=np.float32)
    return queries, keys, values


def attend_plainly(queries, keys, values):
    """Softmax attention one token and head at a time, in double precision."""
    out = np.zeros(queries.shape)
    cached = keys.shape[2] - len(queries)
    for token, head, member in np.ndindex(queries.shape[:3]):
        seen = cached + token + 1
        scores = queries[token, head, member].astype(float) @ keys[head, :, :seen]
        weights = np.exp(scores - scores.max())
        out[token, head, member] = weights / weights.sum() @ values[head, :seen]
    return out


@pytest.mark.parametrize("cached", [0, 1, 37])
@pytest.mark.parametrize("tokens", [2, 3, QUERY_BLOCK, QUERY_BLOCK + 1, 2 * QUERY_BLOCK + 5])
def test_a_prompt_attends_to_its_past_and_itself(tokens, cached):
    """Blocked attention equals the plain formula, whatever the block boundaries."""
    queries, keys, values = arrays(tokens, cached + tokens)
    out = np.empty_like(queries)

    Attention(SHAPE, MAX_LEN).prompt(queries, keys, values, out)

    np.testing.assert_allclose(out, attend_plainly(queries, keys, values), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("context", [1, 2, 300])
def test_one_token_attends_to_the_whole_context(context):
    """The decode kernel equals the plain formula."""
    queries, keys, values = arrays(1, context)
    expected = attend_plainly(queries, keys, values)[0]
    out = np.empty_like(queries[0])

    Attention(SHAPE, MAX_LEN).one_token(queries[0], keys, values, out)

    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-4)
