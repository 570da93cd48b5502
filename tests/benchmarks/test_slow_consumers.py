"""The search for gaps that an application made wrong."""

import random

import pytest

from benchmarks.slow_consumers import SURFACES, Found, script, stream_once


@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_is_timed_and_compared_with_the_server(surface):
    """How right the gaps are is for a machine with nothing else to do."""
    found = stream_once(random.Random("3"), surface)

    assert found.surface == surface
    assert len(found.errors_ms) + found.limited > 0


def test_a_script_says_which_read_brings_each_token():
    reads, of_tokens = script(random.Random("1"))

    tokens = [sum(b'"content": " ' in chunk for chunk in read.chunks) for read in reads]
    assert of_tokens == [index for index, count in enumerate(tokens) for _ in range(count)]
    assert [read.t_ms for read in reads] == sorted(read.t_ms for read in reads)


def test_an_error_is_wrong_in_either_direction():
    found = Found("asyncio, recv", "sleep", 0, (8.0, 8.1, -9.0, 0.1))
    assert found.wrong_ms(8.0) == [8.1, -9.0]
