"""What an application's pulls say about the reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasemeter.core.consumer import Consumer

MS = 1_000_000


def consumer_view(stamps_ns, handed_ns, asked_ns, *, supposes=True):
    consumer = Consumer()
    consumer.supposes = supposes
    for chunk, (stamp_ns, given_ns) in enumerate(zip(stamps_ns, handed_ns, strict=True)):
        consumer.stamps_ns.append(stamp_ns)
        consumer.handed_ns.append(given_ns)
        consumer.digest()  # at any time: before the application asks, too
        consumer.kept_ns += [asked - given_ns for asked in asked_ns[chunk : chunk + 1]]
    consumer.digest()
    consumer.digest()
    return consumer.waits_ns, consumer.limited_reads


def view(stamps_ms, handed_ms, asked_ms):
    return consumer_view(
        *([round(t * MS) for t in times] for times in (stamps_ms, handed_ms, asked_ms))
    )


def test_waits_are_summed_over_the_chunks_of_a_read():
    """Index r is the time that the application kept read r; a chunk not given back has no wait."""
    waits_ns, _ = consumer_view([10, 10, 20, 30], [11, 13, 21, 31], [12, 15, 25])

    assert waits_ns == [3, 4]
    assert consumer_view([], [], []) == ([], set())


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100))), st.integers(0, 5))
def test_the_waits_are_the_same_where_nothing_is_to_be_supposed(chunks, given_back):
    """Chunks that each came in a read of their own are worked up together then."""
    stamps = sorted(stamp for stamp, _ in chunks)
    asked = [a + wait for a, (_, wait) in zip(stamps, chunks, strict=True)][: len(chunks) - 1]

    waits_ns, _ = consumer_view(stamps, stamps, asked)
    consumer = Consumer()
    consumer.supposes = False
    consumer.stamps_ns += stamps
    kept = [asked - given for asked, given in zip(asked, stamps, strict=False)]
    consumer.kept_ns += kept[:given_back]
    consumer.digest()
    consumer.kept_ns += kept[given_back:]
    consumer.digest()

    assert consumer_view(stamps, stamps, asked, supposes=False)[0] == waits_ns
    assert consumer.waits_ns == waits_ns


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100))))
def test_no_wait_is_lost(chunks):
    """The sum over reads is the sum over chunks."""
    stamps = sorted(stamp for stamp, _ in chunks)
    waits = [wait for _, wait in chunks]

    per_read, limited = consumer_view(
        stamps, stamps, [a + b for a, b in zip(stamps, waits, strict=True)]
    )

    assert sum(per_read) == sum(waits)
    assert len(per_read) == len(set(stamps))
    assert all(0 < read < len(per_read) for read in limited)


@pytest.mark.parametrize(
    ("asked_ms", "limited"),
    [
        # Asked at 149.9 and there at 150: it had been waiting, and so the gap after it may be too short.
        ((149.9, 172), {1, 2}),
        ((130, 172), set()),  # waited 20 ms for the server after asking
        ((100.1, 170.9), {2}),
        ((149.9, 170.9), {1, 2}),
        ((155, 180), set()),  # stamped while the application was away: these are arrivals
        ((100.2, 150.2), set()),  # never away
    ],
)
def test_a_read_that_was_there_before_it_was_asked_for_is_limited(asked_ms, limited):
    """Reads at 100, 150 and 171 ms, each handed over at once."""
    _, found = view((100, 150, 171), (100, 150, 171), asked_ms)

    assert found == limited


def test_what_was_there_behind_a_late_read_is_late_too():
    """A pause of 50 ms, then two reads at once; the next gap may be too short by all of it, the last not."""
    _, limited = view(
        (100, 150, 150.2, 170, 190), (100, 150, 150.2, 170, 190), (149.9, 150.1, 150.3, 170.1)
    )

    assert limited == {1, 2, 3}


def test_the_chunks_of_one_read_are_one_wait():
    """20 ms on each of two chunks of a read: what comes then had been waiting 40 ms, not 20."""
    _, limited = view((100, 100, 140.1), (100, 120, 140.1), (120, 140))

    assert limited == {1}


def test_an_owner_who_knows_which_bytes_waited_leaves_nothing_to_suppose():
    """The same pulls, limited by their times."""
    consumer = Consumer()
    consumer.stamps_ns += [100 * MS, 150 * MS]
    consumer.handed_ns += [100 * MS, 150 * MS]
    consumer.kept_ns += [49 * MS + 900_000]
    consumer.digest()
    assert consumer.limited_reads == {1}

    consumer.supposes = False

    assert not consumer.limited_reads
