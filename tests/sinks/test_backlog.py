"""Put-off work: at once without a loop, in slices with one, bounded, in order."""

import asyncio

from phasemeter.sinks import backlog as module
from phasemeter.sinks.backlog import Backlog


def test_without_a_loop_everything_is_done_at_once():
    """There is nobody to hold up."""
    done = []

    Backlog(done.append).add(range(5), 5)

    assert done == [0, 1, 2, 3, 4]


def test_under_a_loop_work_is_done_in_slices_between_other_callbacks():
    """Nothing at the call, then one item a turn at least, in order."""
    done = []

    async def run():
        backlog = Backlog(done.append, slice_ns=0)
        backlog.add(range(2), 2)
        backlog.add(range(2, 5), 3)
        seen = [len(done)]
        while len(backlog):
            await asyncio.sleep(0)
            seen.append(len(done))
        return seen

    assert asyncio.run(run()) == [0, 1, 2, 3, 4, 5, 5]
    assert done == [0, 1, 2, 3, 4]


def test_what_a_closed_loop_left_is_done_at_the_next_use():
    """A loop may end before its slices ran."""
    done = []
    backlog = Backlog(done.append, slice_ns=0)

    async def run():
        backlog.add(range(3), 3)

    asyncio.run(run())
    backlog.add([3], 1)

    assert done == [0, 1, 2, 3]


def test_a_second_loop_goes_on_where_the_first_was_closed():
    """The mark of the first loop does not block the second."""
    done = []
    backlog = Backlog(done.append, slice_ns=0)

    async def leave():
        backlog.add(range(3), 3)

    async def finish():
        backlog.add([3], 1)
        while len(backlog):  # noqa: ASYNC110  each turn is what is tested
            await asyncio.sleep(0)

    asyncio.run(leave())
    asyncio.run(finish())

    assert done == [0, 1, 2, 3]


def test_a_long_slice_takes_many_items_a_turn():
    """As many as the time allows."""
    done = []

    async def run():
        backlog = Backlog(done.append, slice_ns=10**12)
        backlog.add(range(500), 500)
        await asyncio.sleep(0)
        return len(done)

    assert asyncio.run(run()) == 500


def test_a_job_that_fails_does_not_hold_up_the_next(monkeypatch):
    """Its own samples are lost, which is logged."""
    monkeypatch.setenv("PHASEMETER_STRICT", "0")
    done = []

    def failing():
        yield 1
        raise ValueError

    backlog = Backlog(done.append)
    backlog.add(failing(), 2)
    backlog.add([2], 1)

    assert done == [1, 2]


def test_overload_is_dropped_and_counted(monkeypatch):
    """Bounded memory, and it says so; what was worked off makes room."""
    monkeypatch.setattr(module, "_MAX_SAMPLES", 3)
    done = []

    async def run():
        backlog = Backlog(done.append)
        backlog.add(range(2), 2)
        backlog.add(range(2), 2)
        backlog.drain()
        backlog.add([7], 3)
        backlog.drain()
        return backlog.dropped

    assert asyncio.run(run()) == 2
    assert done == [0, 1, 7]
