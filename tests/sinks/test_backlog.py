"""Put-off work: at once without a loop, in slices with one, bounded, in order."""

import asyncio

from phasemeter.sinks import backlog as module
from phasemeter.sinks.backlog import Backlog


def test_without_a_loop_everything_is_done_at_once():
    """There is nobody to hold up."""
    done = []

    Backlog(done.append, 2).add(range(5))

    assert done == [0, 1, 2, 3, 4]


def test_under_a_loop_work_is_done_in_slices_between_other_callbacks():
    """Nothing at the call, then a slice a turn, in order."""
    done = []

    async def run():
        backlog = Backlog(done.append, 2)
        backlog.add(range(5))
        seen = [len(done)]
        while len(backlog):
            await asyncio.sleep(0)
            seen.append(len(done))
        return seen

    assert asyncio.run(run()) == [0, 2, 4, 5]
    assert done == [0, 1, 2, 3, 4]


def test_what_a_closed_loop_left_is_done_at_the_next_use():
    """A loop may end before its slices ran."""
    done = []
    backlog = Backlog(done.append, 1)

    async def run():
        backlog.add(range(3))

    asyncio.run(run())
    backlog.add([3])

    assert done == [0, 1, 2, 3]


def test_a_second_loop_goes_on_where_the_first_was_closed():
    """The mark of the first loop does not block the second."""
    done = []
    backlog = Backlog(done.append, 1)

    async def leave():
        backlog.add(range(3))

    async def finish():
        backlog.add([3])
        while len(backlog):  # noqa: ASYNC110  each turn is what is tested
            await asyncio.sleep(0)

    asyncio.run(leave())
    asyncio.run(finish())

    assert done == [0, 1, 2, 3]


def test_overload_is_dropped_and_counted(monkeypatch):
    """Bounded memory, and it says so."""
    monkeypatch.setattr(module, "_MAX_ITEMS", 3)

    async def run():
        backlog = Backlog(lambda item: None, 1)
        backlog.add(range(5))
        return len(backlog), backlog.dropped

    assert asyncio.run(run()) == (3, 2)
