"""Reading ahead of the consumer: arrivals exact, one read at a time, nothing lost, nothing left running."""

import asyncio
import gc
import threading
import warnings
import weakref
from collections import deque
from contextvars import ContextVar

import pytest
import trio

from phasemeter.testing import FakeClock
from phasemeter.transports import read_queue
from phasemeter.transports.read_ahead import ReadAhead
from phasemeter.transports.stamping import AsyncStampedStream

MS = 1_000_000
USERS = ContextVar("users", default=None)


class WireTimeout(Exception):
    """The family's own class."""


class Wire:
    """An async network stream under the test's control, as strict as anyio's: one read at a time."""

    def __init__(self):
        self.arrived = deque()
        self.reading = 0
        self.reads = 0
        self.closed = False
        self.seen_context = []
        self._event = asyncio.Event()

    def arrive(self, *outcomes):
        self.arrived.extend(outcomes)
        self._event.set()

    async def read(self, max_bytes, timeout=None):
        assert not self.reading, "two reads at a time"
        self.reading += 1
        self.reads += 1
        self.seen_context.append(USERS.get())
        try:
            async with asyncio.timeout(timeout):
                while not self.arrived:
                    self._event.clear()
                    await self._event.wait()
        except TimeoutError:
            raise WireTimeout from None
        finally:
            self.reading -= 1
        outcome = self.arrived.popleft()
        if isinstance(outcome, Exception):
            raise outcome
        if len(outcome) > max_bytes:
            self.arrived.appendleft(outcome[max_bytes:])
        return outcome[:max_bytes]

    async def write(self, buffer, timeout=None):
        assert not self.reading, "a request while the last response is being read"

    async def aclose(self):
        assert not self.reading, "closed during a read"
        self.closed = True

    def get_extra_info(self, info):
        return bool(self.arrived) if info == "is_readable" else info


async def turns(count=4):
    for _ in range(count):
        await asyncio.sleep(0)


def others():
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def stream(clock):
    """A stream whose body is open and whose first bytes were read; the loop has not turned since."""
    stream = AsyncStampedStream(Wire(), clock.now_ns)
    stream.inner.arrive(b"head")
    await stream.read(100)
    stream.open_body()
    return stream


async def test_bytes_that_come_while_the_consumer_is_busy_keep_their_own_arrivals(stream, clock):
    """Drained at once afterwards, each read has its time."""
    for data in (b"a", b"b", b"c"):
        await turns()
        clock.advance_ms(20)
        stream.inner.arrive(data)
    await turns()
    clock.advance_ms(1000)

    got = [(await stream.read(100), stream.last_read_ns) for _ in range(3)]
    assert got == [(b"a", 20 * MS), (b"b", 40 * MS), (b"c", 60 * MS)]


async def test_a_consumer_that_keeps_up_reads_by_itself(stream):
    """No task is ever made for it."""
    for _ in range(20):
        asyncio.get_running_loop().call_later(0.001, stream.inner.arrive, b"x")
        await stream.read(100)
        assert not others()
    assert stream.inner.reads == 21


async def test_a_consumer_that_has_always_come_back_is_looked_after_all_the_same(
    stream, clock, monkeypatch
):
    """Not at every read any more; but when it goes away, arrivals are stamped within milliseconds."""
    loop, checks = asyncio.get_running_loop(), []
    check = ReadAhead.check
    monkeypatch.setattr(ReadAhead, "check", lambda self: checks.append(1) or check(self))
    for _ in range(2000):
        loop.call_soon(stream.inner.arrive, b"x")
        await stream.read(100)
    assert not others()
    assert len(checks) < 1000

    async with asyncio.timeout(10):
        while not others():  # noqa: ASYNC110  what the consumer does instead of reading
            await asyncio.sleep(0.001)
    for data in (b"a", b"b"):
        await turns()
        clock.advance_ms(20)
        stream.inner.arrive(data)
    await turns()
    clock.advance_ms(1000)

    got = [(await stream.read(100), stream.last_read_ns) for _ in range(2)]
    assert got == [(b"a", 20 * MS), (b"b", 40 * MS)]
    assert not stream.waited_ns


async def test_where_reads_lie_apart_it_is_seen_at_once_that_the_consumer_has_gone(
    stream, clock, monkeypatch
):
    """As most streams are: each read is looked after with the next turn of the loop."""
    loop, checks = asyncio.get_running_loop(), []
    check = ReadAhead.check
    monkeypatch.setattr(ReadAhead, "check", lambda self: checks.append(1) or check(self))
    for _ in range(50):
        clock.advance_ms(20)
        loop.call_soon(stream.inner.arrive, b"x")
        await stream.read(100)
    await turns()

    assert len(checks) >= 50
    assert others()


async def test_what_came_before_such_a_consumer_was_missed_may_have_waited(stream, clock):
    """Its arrival is not known, and that is said."""
    loop = asyncio.get_running_loop()
    for _ in range(20):
        loop.call_soon(stream.inner.arrive, b"x")
        await stream.read(100)
    clock.advance_ms(1)
    stream.inner.arrive(b"a")
    async with asyncio.timeout(10):
        while not others() and stream.inner.arrived:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await turns()

    assert await stream.read(100) == b"a"
    assert list(stream.waited_ns) == [stream.last_read_ns]


async def test_an_outstanding_read_is_adopted(stream, clock):
    """The consumer waits for it instead of starting a second one, and reads by itself afterwards."""
    got = []

    async def consume():
        for _ in range(3):
            got.append((await stream.read(100), stream.last_read_ns))  # noqa: PERF401

    await turns()
    assert len(others()) == 1
    consumer = asyncio.create_task(consume())
    await turns()
    clock.advance_ms(5)
    stream.inner.arrive(b"x")
    await turns()
    assert got == [(b"x", 5 * MS)]
    assert others() == [consumer]
    assert stream.inner.reads == 3

    for _ in range(2):
        stream.inner.arrive(b"y")
        await turns()
    await consumer


async def test_no_bytes_for_the_timeout_is_the_inner_streams_own_exception(stream):
    """It counts from when the consumer asked; what comes later is still to be had."""
    await turns()
    began = asyncio.get_running_loop().time()
    with pytest.raises(WireTimeout):
        await stream.read(100, timeout=0.05)

    assert asyncio.get_running_loop().time() - began >= 0.045
    assert not others()
    stream.inner.arrive(b"late")
    assert await stream.read(100, timeout=5) == b"late"


async def test_bytes_within_the_timeout_are_no_timeout(stream):
    await turns()
    asyncio.get_running_loop().call_later(0.02, stream.inner.arrive, b"x")
    assert await stream.read(100, timeout=5) == b"x"
    stream.close_body()
    await turns()
    assert not others()


async def test_a_fault_comes_out_at_the_next_read_unchanged(stream):
    """After the bytes that came before it."""
    fault = ConnectionResetError("gone")
    await turns()
    stream.inner.arrive(b"last", fault)
    await turns()

    assert await stream.read(100) == b"last"
    assert stream.get_extra_info("is_readable") is True
    with pytest.raises(ConnectionResetError) as caught:
        await stream.read(100)
    assert caught.value is fault
    assert not others()


async def test_the_end_is_kept(stream):
    """And makes an idle connection readable, so that nobody uses it again."""
    assert stream.get_extra_info("is_readable") is False
    await turns()
    stream.inner.arrive(b"")
    await turns()
    assert stream.get_extra_info("is_readable") is True
    assert stream.get_extra_info("socket") == "socket"

    assert await stream.read(100) == b""
    await turns()
    assert not others()
    assert stream.inner.reads == 2


@pytest.mark.parametrize("busy_first", [True, False])
async def test_cancelling_the_consumer_leaves_nothing_running(stream, busy_first):
    """Whether its own read or an adopted one is waited for; the bytes are still to be had."""
    if busy_first:
        await turns()
    reader = asyncio.create_task(stream.read(100, timeout=60))
    await turns()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await turns()

    assert not others()
    stream.inner.arrive(b"x")
    assert await stream.read(100) == b"x"


async def test_a_cancellation_that_was_due_before_the_read_is_not_swallowed(stream):
    """cancel() on the running task takes effect at its next await, which is the adopted read."""
    await turns()

    async def consume():
        asyncio.current_task().cancel()
        await stream.read(100, timeout=60)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(consume())
    await turns()
    assert not others()


async def test_a_cancellation_beside_our_own_is_not_swallowed(stream):
    """The body is closed and the consumer is cancelled in the same turn of the loop."""
    await turns()
    reader = asyncio.create_task(stream.read(100))
    await turns()
    stream.close_body()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


async def test_the_end_of_the_body_ends_the_read_but_not_the_waiting_consumer(stream):
    """Whoever reads on the connection next goes on by itself."""
    await turns()
    reader = asyncio.create_task(stream.read(100))
    await turns()
    stream.close_body()
    await turns()
    assert others() == [reader]
    stream.inner.arrive(b"x")
    assert await reader == b"x"


async def test_a_following_request_waits_until_the_read_is_over(stream):
    """The wire refuses a write during a read; bytes after the end go to the next response."""
    await turns()
    stream.close_body()
    await stream.write(b"request")
    assert not others()

    stream.inner.arrive(b"response")
    assert await stream.read(100) == b"response"


async def test_bytes_read_after_the_end_are_handed_on(stream):
    await turns()
    stream.inner.arrive(b"stray")
    await turns()
    stream.close_body()
    await turns()

    assert not others()
    assert stream.get_extra_info("is_readable") is True
    assert await stream.read(2) == b"st"
    assert await stream.read(100) == b"ray"
    await turns()
    assert not others()


async def check_one_late_read(stream, clock):
    """The loop stands still for 50 ms; what comes meanwhile has waited, what comes afterwards is in time."""
    clock.advance_ms(50)
    stream.inner.arrive(b"late")
    await turns()
    clock.advance_ms(20)
    stream.inner.arrive(b"in time")
    await turns()

    assert [await stream.read(100), await stream.read(100)] == [b"late", b"in time"]
    assert stream.waited_ns == {50 * MS: 50 * MS}
    stream.close_body()
    await turns()


async def test_bytes_that_came_while_the_loop_stood_still_have_waited(clock):
    """Read ahead as soon as it turned, yet late."""
    stream = AsyncStampedStream(Wire(), clock.now_ns)
    stream.open_body()
    await check_one_late_read(stream, clock)


class TakenByTheLoop(Wire):
    """As on uvloop: the loop takes bytes from the socket before anybody can look, and hands over later."""

    async def read(self, max_bytes, timeout=None):
        data = await super().read(max_bytes, timeout)
        await asyncio.sleep(0)
        return data

    def get_extra_info(self, info):
        return None if info == "is_readable" else info


@pytest.mark.parametrize("wire", [Wire, TakenByTheLoop])
async def test_a_loop_held_up_on_another_chunk_of_the_same_read_counts_too(wire, clock):
    """Nobody asks the connection between the two; a read is under way."""
    stream = AsyncStampedStream(wire(), clock.now_ns)
    stream.open_body()
    await turns()
    stream.more_handed_over()
    await check_one_late_read(stream, clock)


@pytest.mark.parametrize("wire", [Wire, TakenByTheLoop])
async def test_a_consumer_that_asks_after_holding_up_the_loop_has_kept_bytes_waiting(wire, clock):
    """It waits for the read that is under way."""
    stream = AsyncStampedStream(wire(), clock.now_ns)
    stream.open_body()
    await turns()
    stream.more_handed_over()
    clock.advance_ms(50)
    stream.inner.arrive(b"late")

    assert await stream.read(100) == b"late"
    assert stream.waited_ns == {50 * MS: 50 * MS}
    stream.close_body()
    await turns()


async def test_a_loop_held_up_again_after_one_turn_was_held_up_all_the_time(clock):
    """Bytes of the first time are read only after the second."""
    stream = AsyncStampedStream(TakenByTheLoop(), clock.now_ns)
    stream.open_body()
    await turns()
    stream.more_handed_over()
    clock.advance_ms(50)
    stream.inner.arrive(b"late")
    await asyncio.sleep(0)
    stream.more_handed_over()
    clock.advance_ms(30)
    await turns()

    assert await stream.read(100) == b"late"
    assert stream.waited_ns == {80 * MS: 80 * MS}
    stream.close_body()
    await turns()


async def test_each_of_two_timers_of_one_body_ends_it_once(stream):
    """A client wrapped by two Meters: reading ahead goes on until both have ended."""
    stream.open_body()
    await turns()
    stream.close_body()
    await turns()
    assert len(others()) == 1
    stream.close_body()
    await turns()
    assert not others()


async def test_the_body_may_be_closed_from_another_thread(stream):
    """As when another thread's use of the Meter reports a dropped stream."""
    await turns()
    thread = threading.Thread(target=stream.close_body)
    thread.start()
    await asyncio.to_thread(thread.join)
    await turns()
    assert not others()


async def test_closing_the_connection_ends_the_read_first(stream):
    await turns()
    await stream.aclose()
    await turns()
    assert stream.inner.closed
    assert not others()


async def test_closing_right_after_a_read_starts_nothing(stream):
    """The look whether the consumer came back is still due."""
    await stream.aclose()
    await turns()
    assert not others()


async def test_reading_ahead_stops_at_the_bound_and_goes_on_below(stream):
    """A body of 16 MiB is not in memory; every byte comes."""
    piece = bytes(65_536)
    stream.inner.arrive(*[piece] * 256)
    await turns(600)
    waiting = len(stream.inner.arrived)
    held = (256 - waiting) * len(piece)
    assert held <= read_queue._MOST_BYTES + len(piece)
    assert not others()

    total = 0
    for _ in range(256):
        total += len(await stream.read(65_536))
        await turns()
        assert len(stream._ahead._queue) * len(piece) <= read_queue._MOST_BYTES + len(piece)
    assert total == 16 * 1024 * 1024


async def test_many_small_reads_are_bounded_too(stream):
    stream.inner.arrive(*[b"x"] * 8_000)
    await turns(8_000)
    assert len(stream._ahead._queue) * 129 <= read_queue._MOST_BYTES + 129


async def test_the_application_does_not_see_the_task(stream):
    """Neither its context variables nor its task factory take part."""
    made = []

    def factory(loop, coroutine, **options):
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    asyncio.get_running_loop().set_task_factory(factory)
    USERS.set("secret")
    await turns()
    asyncio.get_running_loop().set_task_factory(None)

    assert len(others()) == 1
    assert not made
    assert stream.inner.seen_context[-1] is None


async def test_a_dropped_stream_goes_and_its_task_ends(clock):
    """The task does not keep it alive."""
    mine = AsyncStampedStream(Wire(), clock.now_ns)
    mine.open_body()
    await turns()
    (task,) = others()
    gone = weakref.ref(mine)
    del mine
    assert gone() is None
    await turns()
    assert task.done()


@pytest.mark.parametrize("passed_turns", [0, 1, 2, 4])
def test_a_loop_that_ends_under_it_makes_no_noise(passed_turns, clock, caplog):
    """Not one of: destroyed but pending, never awaited, an exception in a finalizer."""
    streams = []

    async def main():
        stream = AsyncStampedStream(Wire(), clock.now_ns)
        stream.open_body()
        streams.append(stream)
        await turns(passed_turns)

    loop = asyncio.new_event_loop()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop.run_until_complete(main())
        loop.close()
        streams.clear()
        gc.collect()
    assert not caplog.records


def test_under_trio_reads_are_stamped_as_they_are_asked_for(clock):
    """No asyncio loop, no reading ahead."""

    class TrioWire:
        async def read(self, max_bytes, timeout=None):
            clock.advance_ms(20)
            return b"x"

        def get_extra_info(self, info):
            return None

    async def main():
        stream = AsyncStampedStream(TrioWire(), clock.now_ns)
        stream.open_body()
        assert await stream.read(1) == b"x"
        stream.close_body()
        return stream

    assert trio.run(main).last_read_ns == 20 * MS
