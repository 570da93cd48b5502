"""Curves by hand, and whatever the server's arithmetic is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.analysis.ttft_curve import TtftCurve, fit_ttft_curve
from phasemeter.core.timeline import Usage
from tests.analysis.run_factory import make_timeline


def prompts(curve, lengths, extra_ms=(0.0,)):
    made = []
    for tokens in lengths:
        for number, more_ms in enumerate(extra_ms):
            timeline = make_timeline(f"{tokens}-{number}", first_ms=curve(tokens) + more_ms)
            object.__setattr__(timeline, "usage", Usage(input_tokens=tokens))
            made.append(timeline)
    return made


@given(
    base=st.floats(1, 50),
    per_token=st.floats(0.01, 1),
    squared=st.floats(0, 1e-4),
)
def test_what_follows_a_curve_gives_that_curve(base, per_token, squared):
    lengths = (128, 256, 512, 1024, 2048, 4096)
    told = prompts(lambda t: base + per_token * t + squared * t * t, lengths)

    curve = fit_ttft_curve(told)

    for tokens in lengths:
        expected = base + per_token * tokens + squared * tokens * tokens
        assert curve.at_ms(tokens) == pytest.approx(expected, rel=1e-3)


def test_medians_and_minima():
    told = prompts(lambda t: 10 + 0.1 * t, (100, 200, 400, 800, 1600, 3200), (0.0, 5.0, 40.0))

    typical, fastest = fit_ttft_curve(told), fit_ttft_curve(told, min)

    assert typical.base_ms == pytest.approx(15.0, abs=0.01)
    assert fastest.base_ms == pytest.approx(10.0, abs=0.01)
    assert fastest.per_token_ms == pytest.approx(0.1, rel=1e-3)


def test_no_coefficient_is_below_zero():
    """A curve that bends the other way gets no negative square, which would fall for long prompts."""
    curve = fit_ttft_curve(prompts(lambda t: 3 * t**0.5, (100, 400, 900, 1600, 2500)))

    assert min(curve.to_json().values()) >= 0
    assert curve.per_token_squared_ms == 0


def test_a_flat_server_and_one_length_give_none():
    assert fit_ttft_curve(prompts(lambda t: 50.0, (100, 200, 300, 400))) is None
    assert fit_ttft_curve(prompts(lambda t: 50.0, (100,))) is None


def test_a_manifest_of_a_line_is_still_read():
    assert TtftCurve(base_ms=20.0, per_token_ms=0.5).at_ms(100) == 70.0
