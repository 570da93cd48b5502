from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasemeter.lab.kvcache import KVCache
from phasemeter.lab.model import Model, Segment
from phasemeter.lab.shape import shape_of
from phasemeter.lab.weights import random_weights

SHAPE = shape_of("tiny")
SEED = 11
MAX_LEN = 200
PROMPT = (np.arange(150) * 37 % 258).astype(np.int32)
MODEL = Model(SHAPE, SEED, MAX_LEN)


def run(segments, cache):
    """Exhaust a forward pass and return its logits."""
    passing = MODEL.forward(segments, cache)
    while True:
        try:
            next(passing)
        except StopIteration as stop:
            return stop.value


def prefill(prompt, cuts, *, slot=0, cache=None):
    """Prefill a prompt in pieces that end at `cuts` and at its end; return the last logits."""
    cache = cache or KVCache.private(SHAPE, slot + 1, MAX_LEN)
    logits = None
    edges = [0, *cuts, len(prompt)]
    for start, end in pairwise(edges):
        logits = run([Segment(slot, start, prompt[start:end], wants_logits=True)], cache)
    return logits[0]


def whole(projection):
    return projection._whole.astype(float)


def plain_logits(prompt):
    """The same transformer written as its textbook formulas, in double precision."""
    weights = random_weights(SHAPE, SEED)
    x = weights.embedding[prompt].astype(float)
    half = SHAPE.head_dim // 2
    turns = np.arange(len(prompt))[:, None] * 10000.0 ** (-np.arange(half) / half)
    causal = np.tril(np.ones((len(prompt), len(prompt)), dtype=bool))

    def norm(rows):
        return rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-5)

    def rotate(head):
        low, high = head[:, :half], head[:, half:]
        cos, sin = np.cos(turns), np.sin(turns)
        return np.hstack([low * cos - high * sin, high * cos + low * sin])

    for layer in weights.layers:
        heads = np.split(norm(x) @ whole(layer.qkv), SHAPE.heads + 2 * SHAPE.kv_heads, axis=1)
        attended = []
        for head in range(SHAPE.heads):
            shared = SHAPE.heads + head // SHAPE.group
            query, key = rotate(heads[head]), rotate(heads[shared])
            scores = query @ key.T / np.sqrt(SHAPE.head_dim)
            scores = np.exp(np.where(causal, scores, -np.inf))
            scores /= scores.sum(axis=1, keepdims=True)
            attended.append(scores @ heads[shared + SHAPE.kv_heads])
        x = x + np.hstack(attended) @ whole(layer.attention_out)
        gate, up = np.split(norm(x) @ whole(layer.gate_up), 2, axis=1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ whole(layer.down)
    return (norm(x[-1:]) @ weights.head)[0]


def assert_same(logits, expected):
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-3)
    assert logits.argmax() == expected.argmax()


@pytest.mark.parametrize("tokens", [1, 2, 33, 150])
def test_the_model_is_the_textbook_transformer(tokens):
    """RMSNorm, RoPE, grouped-query attention and SwiGLU equal their formulas."""
    assert_same(prefill(PROMPT[:tokens], []), plain_logits(PROMPT[:tokens]))


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(1, len(PROMPT) - 1), max_size=6))
def test_prefill_in_pieces_is_prefill_at_once(cuts):
    """Any cutting of a prompt leads to the same next-token distribution."""
    assert_same(prefill(PROMPT, sorted(cuts)), prefill(PROMPT, []))


def test_prefill_token_by_token_is_prefill_at_once():
    """The decode kernel and the prompt kernel compute the same model."""
    assert_same(prefill(PROMPT, range(1, len(PROMPT))), prefill(PROMPT, []))


def test_neighbours_in_a_batch_do_not_matter():
    """A prompt piece and a decode row next to other sequences get the logits they get alone."""
    cache = KVCache.private(SHAPE, 3, MAX_LEN)
    prefill(PROMPT[:50], [], slot=0, cache=cache)
    prefill(PROMPT[20:90], [], slot=2, cache=cache)

    logits = run(
        [
            Segment(1, 0, PROMPT[5:95], wants_logits=True),
            Segment(0, 50, PROMPT[50:51], wants_logits=True),
            Segment(2, 70, PROMPT[90:99], wants_logits=False),
        ],
        cache,
    )

    assert logits.shape == (2, SHAPE.vocab)
    assert_same(logits[0], prefill(PROMPT[5:95], []))
    assert_same(logits[1], prefill(PROMPT[:51], []))


def test_only_large_passes_pause():
    """A decode step runs through; a prefill pauses twice a layer to let sockets be served."""
    cache = KVCache.private(SHAPE, 1, MAX_LEN)

    assert len(list(MODEL.forward([Segment(0, 0, PROMPT[:8], wants_logits=True)], cache))) == 0
    pauses = list(MODEL.forward([Segment(0, 0, PROMPT, wants_logits=True)], cache))
    assert len(pauses) == 2 * SHAPE.layers
