"""The truth is worked out from the server's log."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.truth_figures import Span, load_requests, span_of, truth_figures
from phasemeter.testing.truth.log import RequestTruth

MS = 1_000_000


def truth(received_ms, emit_ms, **changes):
    emit_ns = [ms * MS for ms in emit_ms]
    fields = {
        "stream": True,
        "tokens": len(emit_ns),
        "headers_ns": 0,
        "emit_ns": emit_ns,
        "planned_ns": emit_ns,
    }
    return RequestTruth("r", "/", received_ns=received_ms * MS, **{**fields, **changes})


def test_figures_of_two_streams():
    """TTFT 10 and 30 ms; gaps 5, 7 and 9 ms."""
    figures = truth_figures([truth(0, [10, 15, 22]), truth(20, [50, 59])])

    assert (figures.requests, figures.token_events) == (2, 5)
    assert (figures.started_ns, figures.ended_ns) == (0, 59 * MS)
    assert figures.ttft_p50_ms == Span(10, 30)
    assert figures.gap_max_ms == Span(9, 9)
    assert figures.load_s == pytest.approx(0.059)


def test_requests_before_the_load_and_others_are_left_out():
    """Of three whole streams of two tokens the last two are the load."""
    truths = [
        truth(30, [40, 50]),
        truth(0, [5, 10]),
        truth(20, [30, 40]),
        truth(40, [50, 60, 70]),
        truth(50, [60, 70], outcome="gone"),
        truth(60, [70, 80], stream=False),
    ]

    assert [one.received_ns // MS for one in load_requests(truths, 2, 2)] == [20, 30]


def test_a_load_without_gaps_has_no_figures():
    with pytest.raises(ValueError, match="no streamed request"):
        truth_figures([truth(0, [10])])


def test_a_figure_between_the_two_samples_is_exact():
    assert [Span(2, 5).distance_ms(said) for said in (1, 2, 3, 5, 7)] == [-1, 0, 0, 0, 2]


@given(
    st.lists(st.floats(0, 1e4), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.99, 1.0])
)
def test_every_usual_definition_of_a_percentile_lies_within_the_span(samples, quantile):
    span = span_of(np.array(samples), quantile)
    for method in ("inverted_cdf", "hazen", "weibull", "linear", "median_unbiased"):
        said = float(np.quantile(samples, quantile, method=method))

        assert abs(span.distance_ms(said)) <= 1e-9 * max(samples)
