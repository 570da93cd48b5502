"""time_stream: an iterator or async iterator around anything that yields."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
)
from types import TracebackType
from typing import Generic, TypeVar, overload

from phasemeter.clients.items import KindOf
from phasemeter.clients.pull import PulledStream
from phasemeter.core.errors import guard
from phasemeter.core.timeline import Timeline
from phasemeter.transports.recorder import Recorder

ItemT = TypeVar("ItemT")


class _Pulled:
    """What both kinds share.

    Attributes:
        timeline: What was measured, once the iteration has ended; None until then.
    """

    _pulled: PulledStream

    @property
    def timeline(self) -> Timeline | None:
        """What was measured, once the iteration has ended; None until then."""
        return self._pulled.timeline

    def __del__(self) -> None:
        pulled = self.__dict__.get("_pulled")
        if pulled is not None and pulled.is_open:
            with guard("noting a dropped iteration"):
                pulled.on_drop()


class TimedIterator(_Pulled, Generator[ItemT, object, None], Generic[ItemT]):
    """A timed blocking iteration; lazy, and with the methods of a generator."""

    def __init__(self, source: Iterable[ItemT], pulled: PulledStream) -> None:
        self._source = source
        self._pulled = pulled
        self._iterator: Iterator[ItemT] | None = None

    def __next__(self) -> ItemT:
        """Pull the next item."""
        return self.send(None)

    def send(self, value: object) -> ItemT:
        """Pull the next item, sending a value into a source that is a generator."""
        pulled = self._pulled
        pulled.on_pull()
        try:
            iterator = self._started()
            if value is not None and isinstance(iterator, Generator):
                item: ItemT = iterator.send(value)
            else:
                item = next(iterator)
        except StopIteration:
            pulled.on_end()
            raise
        except BaseException as error:
            pulled.on_error(error)
            raise
        pulled.on_item(item)
        return item

    def throw(  # type: ignore[override]
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> ItemT:
        """Raise an exception inside a source that is a generator, else here."""
        error = kind if isinstance(kind, BaseException) else value or kind()
        if traceback is not None:
            error = error.with_traceback(traceback)
        pulled = self._pulled
        try:
            if not isinstance(self._iterator, Generator):
                raise error
            item: ItemT = self._iterator.throw(error)
        except StopIteration:
            pulled.on_end()
            raise
        except BaseException as raised:
            pulled.on_error(raised)
            raise
        pulled.on_item(item)
        return item

    def close(self) -> None:
        """Close the iteration and its source, where they can be closed, then end the timing."""
        try:
            for one in _closables(self._iterator, self._source):
                close = getattr(one, "close", None)
                if callable(close):
                    close()
        finally:
            self._pulled.on_close()

    def _started(self) -> Iterator[ItemT]:
        if self._iterator is None:
            self._iterator = iter(self._source)
        return self._iterator


class TimedAsyncIterator(_Pulled, AsyncGenerator[ItemT, object], Generic[ItemT]):
    """A timed async iteration; lazy, and with the methods of an async generator."""

    def __init__(self, source: AsyncIterable[ItemT], pulled: PulledStream) -> None:
        self._source = source
        self._pulled = pulled
        self._iterator: AsyncIterator[ItemT] | None = None

    async def __anext__(self) -> ItemT:
        """Pull the next item."""
        return await self.asend(None)

    async def asend(self, value: object) -> ItemT:
        """Pull the next item, sending a value into a source that is an async generator."""
        pulled = self._pulled
        pulled.on_pull()
        try:
            if self._iterator is None:
                self._iterator = aiter(self._source)
            if value is not None and isinstance(self._iterator, AsyncGenerator):
                item: ItemT = await self._iterator.asend(value)
            else:
                item = await anext(self._iterator)
        except StopAsyncIteration:
            pulled.on_end()
            raise
        except BaseException as error:
            pulled.on_error(error)
            raise
        pulled.on_item(item)
        return item

    async def athrow(  # type: ignore[override]
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> ItemT:
        """Raise an exception inside a source that is an async generator, else here."""
        error = kind if isinstance(kind, BaseException) else value or kind()
        if traceback is not None:
            error = error.with_traceback(traceback)
        pulled = self._pulled
        try:
            if not isinstance(self._iterator, AsyncGenerator):
                raise error
            item: ItemT = await self._iterator.athrow(error)
        except StopAsyncIteration:
            pulled.on_end()
            raise
        except BaseException as raised:
            pulled.on_error(raised)
            raise
        pulled.on_item(item)
        return item

    async def aclose(self) -> None:
        """Close the iteration and its source, where they can be closed, then end the timing."""
        try:
            for one in _closables(self._iterator, self._source):
                close = getattr(one, "aclose", None) or getattr(one, "close", None)
                closing = close() if callable(close) else None
                if closing is not None:
                    await closing
        finally:
            self._pulled.on_close()


def _closables(iterator: object, source: object) -> list[object]:
    """Return what is to be closed: a source may hand out generators whose end does not close it."""
    return [source] if iterator is None or iterator is source else [iterator, source]


@overload
def time_stream(
    source: AsyncIterable[ItemT],
    recorder: Recorder,
    *,
    model: str | None = None,
    operation: str = "chat",
    kind_of: KindOf | None = None,
) -> TimedAsyncIterator[ItemT]: ...
@overload
def time_stream(
    source: Iterable[ItemT],
    recorder: Recorder,
    *,
    model: str | None = None,
    operation: str = "chat",
    kind_of: KindOf | None = None,
) -> TimedIterator[ItemT]: ...
def time_stream(
    source: Iterable[ItemT] | AsyncIterable[ItemT],
    recorder: Recorder,
    *,
    model: str | None = None,
    operation: str = "chat",
    kind_of: KindOf | None = None,
) -> TimedIterator[ItemT] | TimedAsyncIterator[ItemT]:
    """Return a timed iteration over a source, which is not touched before the first pull.

    Raises:
        TypeError: If the source can be iterated in neither way.
    """
    pulled = PulledStream(recorder, model=model, operation=operation, kind_of=kind_of)
    if isinstance(source, AsyncIterable):
        return TimedAsyncIterator(source, pulled)
    if isinstance(source, Iterable):
        return TimedIterator(source, pulled)
    msg = f"time_stream() takes an iterable or an async iterable, got {type(source).__qualname__}"
    raise TypeError(msg)
