"""Transports that time the requests of known dialects and let everything else pass untouched."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, cast

from phasemeter.core.errors import guard
from phasemeter.transports.call import HttpResponse, TimedCall, open_call
from phasemeter.transports.recorder import Recorder
from phasemeter.transports.request import HttpRequest
from phasemeter.transports.stamping import install
from phasemeter.transports.streams import (
    AsyncClosableBytes,
    ClosableBytes,
    async_stream_class,
    sync_stream_class,
)


class Family(Protocol):
    """The module object of httpx or httpx2, as far as it is used."""

    SyncByteStream: type
    AsyncByteStream: type


class Transport(Protocol):
    """A blocking transport of either family."""

    def __enter__(self) -> object: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def handle_request(self, request: HttpRequest) -> HttpResponse: ...  # noqa: D102


class AsyncTransport(Protocol):
    """An async transport of either family."""

    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    async def handle_async_request(self, request: HttpRequest) -> HttpResponse: ...  # noqa: D102


class _Timing:
    """What both transports share; every attribute that is not timed is the inner transport's.

    Attributes:
        inner: The transport that does the work.
        recorder: Where the findings go.
    """

    def __init__(
        self, inner: object, family: Family, recorder: Recorder, *, owner: object = None
    ) -> None:
        self.inner = inner
        self.recorder = recorder
        self._family = family
        # The client that made the inner transport may close it when it is collected.
        self._owner = owner
        self._install()

    def __getattr__(self, name: str) -> object:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _install(self) -> None:
        raise NotImplementedError


class TimingTransport(_Timing):
    """A blocking transport that times."""

    def _install(self) -> None:
        with guard("wrapping a network backend"):
            install(self.inner, self.recorder.now_ns, is_async=False)

    def __enter__(self) -> Self:
        cast(Transport, self.inner).__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        cast(Transport, self.inner).__exit__(kind, error, traceback)

    def handle_request(self, request: HttpRequest) -> HttpResponse:
        """Send a request; the response's stream is timed if its dialect is known."""
        inner = cast(Transport, self.inner)
        call = open_call(self.recorder, request)
        if call is None:
            return inner.handle_request(request)
        try:
            response = inner.handle_request(request)
        except BaseException as error:
            call.on_error(error)
            raise
        with guard("timing a response"):
            if not _whole_body(response, call):
                call.on_response(response)
                stream_class = sync_stream_class(self._family.SyncByteStream)
                response.stream = stream_class(cast(ClosableBytes, response.stream), call)
        return response


class AsyncTimingTransport(_Timing):
    """An async transport that times."""

    def _install(self) -> None:
        with guard("wrapping a network backend"):
            install(self.inner, self.recorder.now_ns, is_async=True)

    async def __aenter__(self) -> Self:
        await cast(AsyncTransport, self.inner).__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await cast(AsyncTransport, self.inner).__aexit__(kind, error, traceback)

    async def handle_async_request(self, request: HttpRequest) -> HttpResponse:
        """Send a request; the response's stream is timed if its dialect is known."""
        inner = cast(AsyncTransport, self.inner)
        call = open_call(self.recorder, request)
        if call is None:
            return await inner.handle_async_request(request)
        try:
            response = await inner.handle_async_request(request)
        except BaseException as error:
            call.on_error(error)
            raise
        with guard("timing a response"):
            if not _whole_body(response, call):
                call.on_response(response)
                stream_class = async_stream_class(self._family.AsyncByteStream)
                response.stream = stream_class(cast(AsyncClosableBytes, response.stream), call)
        return response


def _whole_body(response: HttpResponse, call: TimedCall) -> bool:
    """Take a response that was made in memory: its stream would never be read."""
    body = getattr(response, "_content", None)
    if not isinstance(body, bytes):
        return False
    call.on_body(response, body)
    return True
