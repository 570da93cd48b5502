from collections import Counter

import numpy as np

from phasemeter.lab.request import Request, Sampling
from phasemeter.lab.shape import VOCAB
from phasemeter.lab.tokenizer import EOS_ID


def make_request(**sampling):
    return Request("r", np.zeros(4, dtype=np.int32), Sampling(**sampling), print, 0)


def peaked(token):
    logits = np.zeros(VOCAB, dtype=np.float32)
    logits[token] = 50.0
    return logits


def test_greedy_takes_the_largest_and_ends_by_length():
    """The third of three tokens carries the finish reason."""
    request = make_request(temperature=0.0, max_tokens=3)

    outputs = [request.draw(peaked(token)) for token in (9, 8, 7)]

    assert [(o.token, o.finish_reason) for o in outputs] == [(9, None), (8, None), (7, "length")]


def test_end_of_sequence_stops_unless_ignored():
    """ignore_eos makes the special an ordinary token."""
    assert make_request(temperature=0.0).draw(peaked(EOS_ID)).finish_reason == "stop"
    ignoring = make_request(temperature=0.0, ignore_eos=True)
    assert ignoring.draw(peaked(EOS_ID)).finish_reason is None


def test_end_of_sequence_cannot_come_before_min_tokens():
    """It is impossible for the first two tokens, and certain for the third."""
    request = make_request(temperature=0.0, min_tokens=2)

    tokens = [request.draw(peaked(EOS_ID)).token for _ in range(3)]

    assert EOS_ID not in tokens[:2]
    assert tokens[2] == EOS_ID


def test_equal_seeds_draw_equal_tokens():
    """The generator belongs to the request and not to the process."""

    def draws(seed):
        request = make_request(seed=seed, max_tokens=50)
        return [request.draw(np.zeros(VOCAB, dtype=np.float32)).token for _ in range(20)]

    assert draws(1) == draws(1) != draws(2)


def test_temperature_draws_from_the_softmax():
    """With logits ln 3 and 0 and all others impossible, three in four draws are the first."""
    logits = np.full(VOCAB, -np.inf, dtype=np.float32)
    logits[:2] = np.log(3.0), 0.0
    request = make_request(max_tokens=5000)

    counts = Counter(request.draw(logits.copy()).token for _ in range(4000))

    assert set(counts) == {0, 1}
    assert abs(counts[0] / 4000 - 0.75) < 0.04  # about 6 standard deviations


def test_a_request_knows_what_is_pending():
    """A prompt of four: four pending; then each drawn token is pending until computed."""
    request = make_request(temperature=0.0)
    assert (request.pending_tokens, request.is_prefilling, request.is_decode_row) == (
        4,
        True,
        False,
    )

    request.computed_tokens = 3
    assert (request.pending_tokens, request.is_prefilling, request.is_decode_row) == (1, True, True)

    request.computed_tokens = 4
    request.draw(peaked(42))
    assert (request.pending_tokens, request.is_prefilling) == (1, False)
    assert request.next_tokens(1).tolist() == [42]
