"""One timer for the connections whose consumers come back at once."""

import asyncio
import gc
import weakref

from phasemeter.transports.read_watch import ReadWatch, watch_of


class Connection:
    def __init__(self, fault=None):
        self.checks = 0
        self.fault = fault

    def check(self):
        self.checks += 1
        if self.fault is not None:
            raise self.fault


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  any condition
            await asyncio.sleep(0.001)


async def test_all_that_were_added_are_checked_once_by_one_timer(monkeypatch):
    """However many, and again when they are added again."""
    loop = asyncio.get_running_loop()
    timers = []
    call_later = loop.call_later
    watch, connections = ReadWatch(), [Connection() for _ in range(5)]
    with monkeypatch.context() as patch:
        patch.setattr(loop, "call_later", lambda *a, **k: timers.append(a) or call_later(*a, **k))
        for one in connections:
            watch.add(one, loop)
    assert len(timers) == 1

    await until(lambda: connections[-1].checks)
    watch.add(connections[0], loop)
    await until(lambda: connections[0].checks == 2)

    assert [one.checks for one in connections] == [2, 1, 1, 1, 1]


async def test_a_check_that_fails_takes_no_other_with_it(monkeypatch):
    monkeypatch.setenv("PHASEMETER_STRICT", "0")
    watch, failing, other = ReadWatch(), Connection(ValueError()), Connection()
    watch.add(failing, asyncio.get_running_loop())
    watch.add(other, asyncio.get_running_loop())

    await until(lambda: other.checks)

    assert failing.checks == 1


def test_each_loop_has_one_which_goes_with_it():
    async def of_this_loop():
        loop = asyncio.get_running_loop()
        watch = watch_of(loop)
        assert watch_of(loop) is watch
        watch.add(Connection(), loop)  # due when the loop is gone
        return weakref.ref(watch)

    first, second = asyncio.run(of_this_loop()), asyncio.run(of_this_loop())
    gc.collect()

    assert first() is second() is None
