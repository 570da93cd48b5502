"""The factor of longest gaps, from injections and spans made by hand."""

import numpy as np
import pytest

from phasemeter.core.clock import NS_PER_MS
from phasemeter.experiments.exposure import Injection
from phasemeter.experiments.inject_run import Gaps, InjectRun
from phasemeter.experiments.longest_gap import Compared, longest_gap_factor

RUN = InjectRun("mixed", 1, 4, {}, (), ())


def injection(longest_ms, episode):
    gaps = Gaps(np.array([0]), np.array([round(longest_ms * NS_PER_MS)]), np.array([0]))
    return Injection(RUN, "0", (), 1, 1, 0, 1, 1, gaps, episode)


def cell(longest_ms, spans_ms, episodes=None):
    """Each span a block of its own."""
    return Compared(
        tuple(map(injection, longest_ms, episodes or range(len(longest_ms)))),
        tuple((np.array([round(each * NS_PER_MS)]),) for each in spans_ms),
        "between",
    )


def test_every_gap_three_times_as_long_is_a_factor_of_three():
    found = longest_gap_factor([cell([30.0] * 8, [10.0] * 20)])

    assert found.value == 3
    assert found.ci95 == (3, 3)


def test_gaps_of_two_kinds_do_not_make_the_factor_jump():
    """11 of 20 are long beside injections, 10 of 20 alone: medians would say 5."""
    found = longest_gap_factor([cell([10.0] * 9 + [50.0] * 11, [10.0] * 10 + [50.0] * 10)])

    assert found.value == 1
    assert (
        longest_gap_factor([cell([30.0] * 10 + [150.0] * 10, [10.0] * 10 + [50.0] * 10)]).value == 3
    )


def test_injections_that_one_stop_caught_count_as_one():
    """8 met the same stop of a second, 7 were apart and met nothing."""
    longest_ms, episodes = [1_000.0] * 8 + [10.0] * 7, [0] * 8 + list(range(1, 8))

    found = longest_gap_factor([cell(longest_ms, [10.0] * 20, episodes)])

    assert found.value == 1
    assert found.ci95 == (1, 1)


def test_each_injection_is_compared_with_the_spans_of_its_own_cell():
    """Long prompts last longer and meet longer gaps, also where nothing happens."""
    short, long = cell([10.0] * 6, [10.0] * 8), cell([40.0] * 6, [40.0] * 200)

    found = longest_gap_factor([short, long])

    assert found.value == 1
    assert found.ci95 == (1, 1)


def test_more_comparisons_make_the_interval_wider():
    rng = np.random.default_rng(1)
    one = cell(rng.lognormal(3, 0.5, 20).tolist(), rng.lognormal(2, 0.5, 60).tolist())

    alone, of_ten = longest_gap_factor([one]), longest_gap_factor([one], tests=10)

    assert alone.value == of_ten.value == pytest.approx(np.e, rel=0.3)
    assert of_ten.ci95[0] < alone.ci95[0] < alone.value < alone.ci95[1] < of_ten.ci95[1]


@pytest.mark.parametrize(
    ("longest_ms", "spans_ms"), [([30.0] * 4, [10.0] * 20), ([30.0] * 8, [10.0] * 4)]
)
def test_too_few_of_either_have_no_interval(longest_ms, spans_ms):
    found = longest_gap_factor([cell(longest_ms, spans_ms)])

    assert found.value == 3
    assert found.ci95 is None


def test_without_anything_to_compare_there_is_no_factor():
    assert longest_gap_factor([]).value is None
    assert longest_gap_factor([cell([30.0], [])]).value is None
