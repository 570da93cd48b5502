"""The life of a timed call, and the sums of consumer waits."""

from hypothesis import given
from hypothesis import strategies as st

from phasemeter.transports.call import waits_per_read


def test_waits_are_summed_over_the_chunks_of_a_read():
    """Index r is the time that the application kept read r; a chunk not given back has no wait."""
    assert waits_per_read([10, 10, 20, 30], [1, 2, 4]) == [3, 4]
    assert waits_per_read([], []) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100))))
def test_no_wait_is_lost(chunks):
    """The sum over reads is the sum over chunks."""
    stamps = sorted(stamp for stamp, _ in chunks)
    waits = [wait for _, wait in chunks]

    per_read = waits_per_read(stamps, waits)

    assert sum(per_read) == sum(waits)
    assert len(per_read) == len(set(stamps))
