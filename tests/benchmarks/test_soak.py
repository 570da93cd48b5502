"""Many streams leave nothing behind, and growth is found where there is some."""

from dataclasses import replace

import pytest

from benchmarks.sdk_soak import concurrent, sequential
from benchmarks.soak_checks import Sample, growth_checks


def samples(*, rss_each=0, blocks_each=0, objects_each=0, files_each=0, malloc_each=0, warm_up=0):
    return [
        Sample(
            10_000 * number,
            50_000_000 + rss_each * 10_000 * number + (warm_up if number > 2 else 0),
            900_000 + blocks_each * 10_000 * number,
            100_000 + objects_each * 10_000 * number,
            9 + files_each * number,
            20_000_000 + malloc_each * 10_000 * number,
        )
        for number in range(1, 10)
    ]


def broken(found):
    return [check.what for check in found if not check.holds]


def test_a_flat_process_passes():
    assert not broken(growth_checks(samples()))


def test_what_grows_in_the_first_third_is_warm_up():
    assert not broken(growth_checks(samples(warm_up=90_000_000)))


@pytest.mark.parametrize(
    ("grows", "what"),
    [
        ({"rss_each": 200}, "resident memory"),
        ({"blocks_each": 1}, "blocks in use"),
        ({"objects_each": 1}, "objects"),
        ({"files_each": 1}, "open files"),
        ({"malloc_each": 20}, "malloc in use"),
    ],
)
def test_growth_is_found(grows, what):
    assert broken(growth_checks(samples(**grows))) == [what]


def test_one_odd_sample_is_no_growth():
    found = samples()
    found[6] = replace(found[6], rss_bytes=900_000_000)

    assert not broken(growth_checks(found))


def test_what_the_bare_client_grows_is_not_ours():
    assert not broken(growth_checks(samples(rss_each=250), samples(rss_each=200)))
    assert broken(growth_checks(samples(rss_each=450), samples(rss_each=200))) == [
        "resident memory"
    ]


def test_what_the_bare_client_goes_up_and_down_by_is_not_ours():
    control = [
        replace(one, rss_bytes=one.rss_bytes + (index % 3) * 12_000_000)
        for index, one in enumerate(samples())
    ]

    assert not broken(growth_checks(samples(rss_each=400), control))
    assert broken(growth_checks(samples(rss_each=600), control)) == ["resident memory"]


def test_where_the_c_library_does_not_tell_nothing_is_said_of_it():
    found = [replace(one, malloc_bytes=None) for one in samples(malloc_each=1_000)]

    assert "malloc in use" not in [check.what for check in growth_checks(found)]


class Hoards:
    """A sink that leaks a large block a stream."""

    def __init__(self):
        self.kept = []

    def started(self, request):
        return None

    def finished(self, timeline, state):
        self.kept.append(bytes(1_000))

    def close(self):
        pass


def test_one_large_block_a_stream_is_found(tmp_path):
    found = concurrent(300, tmp_path, print, bursts=6, gap_s=0.02, more=[Hoards()])

    assert "malloc in use" in broken(found), found


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="6 or more"):
        growth_checks(samples()[:5])


@pytest.mark.parametrize(("client", "streams"), [("httpx2", 600), ("openai", 180)])
def test_streams_one_after_the_other_leave_nothing(client, streams, tmp_path):
    """Read to the end, closed early and dropped; spans, histograms, metrics and records on."""
    found = sequential(streams, client, tmp_path, print, samples=6)

    assert not broken(found), found


def test_streams_at_the_same_time_leave_nothing(tmp_path):
    found = concurrent(100, tmp_path, print, bursts=6, gap_s=0.02)

    assert not broken(found), found


class Keeps:
    """A sink that leaks one small object a stream."""

    def __init__(self):
        self.kept = []

    def started(self, request):
        return None

    def finished(self, timeline, state):
        self.kept.append([timeline.started_ns + len(self.kept)])

    def close(self):
        pass


def test_one_small_object_a_stream_is_found(tmp_path):
    """The list and the number in it: two blocks a stream, one object that the collector knows."""
    found = concurrent(300, tmp_path, print, bursts=6, gap_s=0.02, more=[Keeps()])

    assert broken(found) == ["blocks in use", "objects"], found
