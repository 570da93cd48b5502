"""Many streams leave nothing behind, and growth is found where there is some."""

import pytest

from benchmarks.sdk_soak import concurrent, sequential
from benchmarks.soak_checks import Sample, growth_checks


def samples(*, rss_each=0, objects_each=0, files_each=0, warm_up=0):
    return [
        Sample(
            1000 * number,
            50_000_000 + rss_each * 1000 * number + (warm_up if number > 2 else 0),
            100_000 + objects_each * 1000 * number,
            9 + files_each * number,
        )
        for number in range(1, 10)
    ]


def broken(found):
    return [check.what for check in found if not check.holds]


def test_a_flat_process_passes():
    assert not broken(growth_checks(samples(), rss_limit_bytes=1000, object_limit=10))


def test_what_grows_in_the_first_third_is_warm_up():
    found = growth_checks(samples(warm_up=9_000_000), rss_limit_bytes=1000, object_limit=10)

    assert not broken(found)


@pytest.mark.parametrize(
    ("grows", "what"),
    [
        ({"rss_each": 10}, "resident memory"),
        ({"objects_each": 1}, "objects"),
        ({"files_each": 1}, "open files"),
    ],
)
def test_growth_is_found(grows, what):
    assert broken(growth_checks(samples(**grows), rss_limit_bytes=1000, object_limit=10)) == [what]


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="6 or more"):
        growth_checks(samples()[:5], rss_limit_bytes=1, object_limit=1)


@pytest.mark.parametrize(("client", "streams"), [("httpx2", 600), ("openai", 180)])
def test_streams_one_after_the_other_leave_nothing(client, streams, tmp_path):
    """Read to the end, closed early and dropped; spans, histograms, metrics and records on."""
    found = sequential(streams, client, tmp_path, print, samples=6)

    assert not broken(found), found


def test_streams_at_the_same_time_leave_nothing(tmp_path):
    found = concurrent(40, tmp_path, print, gap_s=0.02)

    assert not broken(found), found
