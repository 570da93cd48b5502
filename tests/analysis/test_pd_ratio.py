import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.analysis.bootstrapped import Bootstrapped
from phasemeter.analysis.pd_ratio import (
    Capacity,
    Shape,
    best_split,
    matched_ratio,
    predict,
    predictions,
    ratio_of,
)


def capacity(prefill, decode, output_tokens=64, spread=None):
    def rate(value):
        draws = np.array([]) if spread is None else value * (1 + spread)
        return Bootstrapped(value, draws)

    return Capacity(rate(prefill), rate(decode), output_tokens)


def test_the_figure_of_distserve():
    """13B on an A100: 5.6 prefills and 10 decodes per second give 3.3 requests/s a GPU at 2P1D."""
    plan = predict(capacity(5.6, 10), Shape("separated", 2, 1))

    assert plan.requests_per_s.value == pytest.approx(10)
    assert plan.requests_per_s.value / plan.shape.instances == pytest.approx(3.33, abs=0.01)
    assert plan.limited_by == "decode"
    assert plan.shape.name == "2P1D"


def test_instances_that_take_turns_add_up_their_times():
    """4 and 12 per second: 1/4 + 1/12 s a request is 3 per second for each instance."""
    assert predict(capacity(4, 12), Shape("elastic", 2, 2)).requests_per_s.value == pytest.approx(6)


def test_a_mixed_instance_has_its_first_token_from_the_prefill():
    """Answers of one token need no decode at all there, but do after a hand-off."""
    one = capacity(4, 12, output_tokens=1)

    assert predict(one, Shape("mixed", 1, 1)).requests_per_s.value == pytest.approx(4)
    assert predict(one, Shape("separated", 1, 1)).requests_per_s.value == pytest.approx(4)
    assert predict(one, Shape("elastic", 1, 1)).requests_per_s.value == pytest.approx(3)


@given(st.floats(0.1, 100), st.floats(0.1, 100), st.integers(2, 9))
def test_no_split_beats_instances_that_take_turns(prefill, decode, instances):
    """Turns lose nothing when nothing is lost by taking turns; a split can only match that."""
    *splits, _ = predictions(capacity(prefill, decode), instances)
    pool = predict(capacity(prefill, decode), Shape("elastic", instances, instances))
    best, share = best_split(splits)

    assert len(splits) == instances - 1
    assert best.requests_per_s.value <= pool.requests_per_s.value * (1 + 1e-9)
    assert share is None
    for one in splits:
        side = prefill * one.shape.prefill < decode * one.shape.decode
        assert one.limited_by == ("prefill" if side else "decode")


def test_intervals_go_through_and_say_how_sure_the_best_split_is():
    """Decode is somewhere between 8 and 12 per second: 2P1D wins only where it is below 10."""
    spread = np.linspace(-0.2, 0.2, 1001)
    rates = Capacity(
        Bootstrapped(5.0, np.full(1001, 5.0)), Bootstrapped(10.0, 10 * (1 + spread)), 64
    )
    predicted = predictions(rates, 3)

    split, share = best_split(predicted)
    assert split.shape.name == "2P1D"
    assert share == 1.0
    assert split.requests_per_s.ci95 == pytest.approx((8.1, 10.0))
    assert matched_ratio(rates).value == pytest.approx(2.0)
    assert matched_ratio(rates).ci95 == pytest.approx((1.62, 2.38))
    measured = Bootstrapped(8.0, np.full(1001, 8.0))
    assert ratio_of(measured, split).value == pytest.approx(0.8)


def test_one_instance_has_no_split():
    assert [one.shape.name for one in predictions(capacity(5, 5), 1)] == ["1 mixed"]
    assert best_split(predictions(capacity(5, 5), 1)) is None
