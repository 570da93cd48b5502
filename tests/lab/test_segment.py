import subprocess
import sys

import pytest

from phasemeter.lab.segment import (
    OwnedSegment,
    open_segment,
    remove_stale_segments,
    segment_exists,
)

OWNER = """
import sys
from phasemeter.lab.segment import OwnedSegment
print(OwnedSegment(4096).name, flush=True)
sys.stdin.read()
"""


def test_a_reader_sees_and_writes_the_owners_bytes():
    """One memory, two mappings."""
    owned = OwnedSegment(4096)
    seen = open_segment(owned.name)
    owned.buffer[7] = 42
    seen[8] = 43

    assert (seen[7], owned.buffer[8]) == (42, 43)
    owned.close()


def test_closing_removes_the_name_and_may_be_repeated():
    """What is already mapped stays readable."""
    owned = OwnedSegment(4096)
    seen = open_segment(owned.name)
    owned.close()
    owned.close()

    assert not segment_exists(owned.name)
    assert open_segment(owned.name) is None
    assert seen[0] == 0


def test_a_living_owners_segment_is_never_removed():
    """Its lock tells."""
    owned = OwnedSegment(4096)

    assert owned.name not in remove_stale_segments()
    assert segment_exists(owned.name)
    owned.close()


def test_the_segment_of_a_killed_owner_is_removed():
    """kill -9 leaves the file, and the lock goes with the process."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        name = process.stdout.readline().strip()
        assert segment_exists(name)
        process.kill()
        process.wait()

    remove_stale_segments()  # another test worker's engine may have been quicker

    assert not segment_exists(name)


@pytest.mark.parametrize("name", ["", "other", "phasemeter-lab-../../x", "/etc/passwd"])
def test_only_our_names_are_opened(name):
    """A request cannot make an engine map some other file."""
    assert open_segment(name) is None
