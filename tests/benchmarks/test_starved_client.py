"""A run made invalid on purpose says so; the same with kernel stamps is valid and right."""

import os

import pytest

from benchmarks.starved_client import starve

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="needs two cores"
    ),
]
# What else the machine does may hold up the server between its stamp and its send, or the client for
# longer than the busy processes do: a run in which it did not shows what there is to show.
TRIES = 4


def tries(folder, stamps):
    for number in range(TRIES):
        (folder / str(number)).mkdir()
        yield starve(folder / str(number), stamps, busy=3)


def test_a_starved_client_with_read_stamps_is_refused(tmp_path):
    outcomes = []
    for outcome in tries(tmp_path, "recv"):
        assert outcome.stamp_source == "recv"
        outcomes.append(outcome)
        if outcome.is_refused:
            break

    assert outcomes[-1].is_refused, outcomes


def test_a_starved_client_with_kernel_stamps_is_valid_and_right(tmp_path):
    outcomes = []
    for outcome in tries(tmp_path, "kernel"):
        assert outcome.stamp_source == "kernel"
        assert outcome.status == 0
        outcomes.append(outcome)
        if outcome.is_right:
            break

    assert outcomes[-1].is_right, outcomes
