"""time_stream: anything that yields, with generator semantics, timed at the pull."""

import gc
import inspect

import pytest

import phasemeter
from phasemeter.core.timeline import Outcome
from phasemeter.testing import FakeClock

MS = 1_000_000


@pytest.fixture
def clock():
    return FakeClock(1000)


@pytest.fixture
def timelines():
    return []


@pytest.fixture
def meter(clock, timelines):
    return phasemeter.Meter(sinks=[phasemeter.CallbackSink(timelines.append)], clock=clock)


def paced(clock, items, ms=10):
    for item in items:
        clock.advance_ms(ms)
        yield item


async def apaced(clock, items, ms=10):
    for item in paced(clock, items, ms):
        yield item


def test_instants_gaps_and_consumer_waits_are_those_of_the_clock(clock, meter):
    """Source 10 ms an item, application 3 ms an item: hand-computed."""
    stream = meter.time_stream(paced(clock, ["a", "b", "c"]), model="m")
    for _ in stream:
        clock.advance_ms(3)

    timeline = phasemeter.timeline(stream)

    assert timeline.outcome is Outcome.OK
    assert (timeline.model, timeline.stamp_source) == ("m", "pull")
    assert timeline.started_ns == 1000
    assert [event.t_ns - 1000 for event in timeline.events] == [10 * MS, 23 * MS, 36 * MS]
    assert timeline.consumer_waits_ns == (3 * MS, 3 * MS, 3 * MS)
    assert timeline.prefill_s == 0.01
    assert timeline.decode_s == 0.026


async def test_an_async_source_is_timed_alike(clock, meter):
    """Same figures, async iteration."""
    stream = meter.time_stream(apaced(clock, ["a", "b", "c"]))
    async for _ in stream:
        clock.advance_ms(3)

    timeline = phasemeter.timeline(stream)

    assert [event.t_ns - 1000 for event in timeline.events] == [10 * MS, 23 * MS, 36 * MS]
    assert timeline.outcome is Outcome.OK


def test_nothing_happens_before_the_first_pull(clock, meter, timelines):
    """Lazy: the source is untouched and an iteration never begun makes no record."""
    touched = []

    class Source:
        def __iter__(self):
            touched.append(True)
            return iter(["a"])

    stream = meter.time_stream(Source())
    assert touched == []
    assert phasemeter.timeline(stream) is None
    clock.advance_ms(5)
    list(stream)

    meter.time_stream(["a"]).close()
    meter.close()

    assert touched == [True]
    assert [one.started_ns for one in timelines] == [1000 + 5 * MS]


def test_values_sent_and_exceptions_thrown_reach_a_generator(meter):
    """send, throw, return through close."""

    def source():
        got = yield "a"
        try:
            yield got
        except KeyError:
            yield "caught"

    stream = meter.time_stream(source())

    assert inspect.isgenerator(stream) is False
    assert next(stream) == "a"
    assert stream.send("sent") == "sent"
    assert stream.throw(KeyError()) == "caught"
    with pytest.raises(StopIteration):
        next(stream)
    assert stream.timeline.outcome is Outcome.OK


def test_close_closes_the_source_and_is_cancelled(meter):
    """Once, however often it is called."""
    closed = []

    def source():
        try:
            yield "a"
        finally:
            closed.append(True)

    stream = meter.time_stream(source())
    next(stream)
    stream.close()
    stream.close()

    assert closed == [True]
    assert stream.timeline.outcome is Outcome.CANCELLED
    assert stream.timeline.ended_ns == stream.timeline.last_token_ns


async def test_aclose_closes_an_async_source(clock, meter):
    """As close does."""
    source = apaced(clock, ["a", "b"])
    stream = meter.time_stream(source)
    await anext(stream)
    await stream.aclose()

    assert stream.timeline.outcome is Outcome.CANCELLED
    with pytest.raises(StopAsyncIteration):
        await anext(source)


def test_the_sources_exception_comes_through_unchanged(clock, meter):
    """Same object; the record keeps what came before."""
    fault = OSError("x")

    def source():
        yield "a"
        raise fault

    stream = meter.time_stream(source())
    next(stream)
    with pytest.raises(OSError, match="x") as caught:
        next(stream)

    assert caught.value is fault
    assert (stream.timeline.outcome, stream.timeline.error_type) == (Outcome.ERROR, "OSError")
    assert len(stream.timeline.events) == 1


def test_a_timeout_is_an_error_of_that_class(meter):
    """TimeoutError of Python's own."""

    def source():
        yield "a"
        raise TimeoutError

    stream = meter.time_stream(source())
    with pytest.raises(TimeoutError):
        list(stream)

    assert (stream.timeline.outcome, stream.timeline.error_type) == (Outcome.ERROR, "timeout")


def test_a_dropped_iteration_is_abandoned_at_its_last_item(clock, meter, timelines):
    """Reported at the next use of the Meter, with the last item's time."""
    stream = meter.time_stream(paced(clock, ["a", "b"]))
    next(stream)
    del stream
    gc.collect()
    clock.advance_ms(1000)
    meter.close()

    (timeline,) = timelines

    assert timeline.outcome is Outcome.ABANDONED
    assert timeline.ended_ns == timeline.last_token_ns == 1000 + 10 * MS


def test_an_empty_source_is_empty(meter):
    """No item, no token: empty, not an error."""
    stream = meter.time_stream([])

    assert list(stream) == []
    assert (stream.timeline.outcome, stream.timeline.error_type) == (Outcome.EMPTY, None)


def test_kind_of_decides_alone(clock, meter):
    """None means no token."""
    kinds = {"a": "reasoning", "b": None, "c": "tool_call"}
    stream = meter.time_stream(paced(clock, kinds), kind_of=kinds.get)
    list(stream)

    assert [event.kind for event in stream.timeline.events] == ["reasoning", "tool_call"]


def test_what_cannot_be_iterated_is_refused(meter):
    """TypeError names what is accepted."""
    with pytest.raises(TypeError, match="takes an iterable or an async iterable, got int"):
        meter.time_stream(7)


def test_an_object_that_was_not_timed_is_a_lookup_error():
    """With a clear line."""
    with pytest.raises(LookupError, match=r"builtins\.list was not timed"):
        phasemeter.timeline([])
