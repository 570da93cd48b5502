"""Asks streams for their token counts on the user's behalf, and hides the chunk that brings them.

Only for streamed chat and legacy completions whose body says nothing of `stream_options.include_usage`.
The request is changed below the timing and the extra chunk is hidden above it, so the Timeline gets the
counts and the application gets the bytes that it would have got.
"""

from __future__ import annotations

import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import suppress
from functools import lru_cache
from typing import Protocol, cast

from phasemeter.core.errors import guard, warn_once
from phasemeter.transports.call import HttpResponse
from phasemeter.transports.recorder import Recorder
from phasemeter.transports.request import HttpRequest, dialect_of
from phasemeter.transports.streams import AsyncClosableBytes, ClosableBytes
from phasemeter.transports.timing import (
    AsyncTimingTransport,
    AsyncTransport,
    Family,
    TimingTransport,
    Transport,
)
from phasemeter.transports.usage_filter import UsageFilter

_DIALECTS = ("openai.chat", "openai.completions")
_ASKED = "phasemeter.asked_for_usage"
_REFUSALS = (400, 422)
"""What servers answer that know no `stream_options`, or no such option in it."""
_MAX_REFUSING = 1024
_OPTION = '"include_usage":true'
_BODY_DIGESTS = ("content-digest", "content-md5", "digest", "signature", "x-amz-content-sha256")
_WHITE = " \t\r\n"

_refusing: set[tuple[str, str, int | None, str]] = set()


class _Headers(Protocol):
    def __contains__(self, name: object) -> bool: ...
    def __setitem__(self, name: str, value: str) -> None: ...
    def get(self, name: str, default: str) -> str: ...
    def pop(self, name: str, default: str | None) -> str | None: ...
    def copy(self) -> _Headers: ...


class _Message(Protocol):
    @property
    def headers(self) -> _Headers: ...


class _Response(_Message, Protocol):
    def close(self) -> None: ...
    async def aclose(self) -> None: ...


class _Family(Family, Protocol):
    Request: Callable[..., HttpRequest]
    ByteStream: Callable[[bytes], object]


class UsageAsker:
    """Sends requests to the inner transport with `include_usage`, where that is called for.

    A server that refuses such a request gets the original one, and is not asked again: the application
    has the answer that it would have had. The refusal costs one more exchange.
    """

    def __init__(self, inner: object, family: Family) -> None:
        self.inner = inner
        self._family = cast(_Family, family)

    def __getattr__(self, name: str) -> object:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _asking(self, request: HttpRequest) -> HttpRequest | None:
        """Return the request that asks for usage; None where it is to be sent as it is."""
        with guard("asking a stream for its usage"):
            if _place_of(request) not in _refusing:
                return _with_usage(request, self._family)
        return None


class _SyncAsker(UsageAsker):
    def handle_request(self, request: HttpRequest) -> HttpResponse:
        inner = cast(Transport, self.inner)
        asking = self._asking(request)
        if asking is None:
            return inner.handle_request(request)
        response = inner.handle_request(asking)
        if response.status_code not in _REFUSALS:
            response.extensions[_ASKED] = True
            return response
        with suppress(Exception):  # the connection may be gone; nobody has seen this response
            cast(_Response, response).close()
        return _after_refusal(request, inner.handle_request(request))


class _AsyncAsker(UsageAsker):
    async def handle_async_request(self, request: HttpRequest) -> HttpResponse:
        inner = cast(AsyncTransport, self.inner)
        asking = self._asking(request)
        if asking is None:
            return await inner.handle_async_request(request)
        response = await inner.handle_async_request(asking)
        if response.status_code not in _REFUSALS:
            response.extensions[_ASKED] = True
            return response
        with suppress(Exception):
            await cast(_Response, response).aclose()
        return _after_refusal(request, await inner.handle_async_request(request))


class UsageTransport(TimingTransport):
    """A blocking transport that times, and sees to it that streams tell their token counts."""

    def __init__(
        self, inner: object, family: Family, recorder: Recorder, *, owner: object = None
    ) -> None:
        super().__init__(_SyncAsker(inner, family), family, recorder, owner=owner)

    def handle_request(self, request: HttpRequest) -> HttpResponse:
        """Send a request; what it was made to tell beyond the asked is hidden."""
        response = super().handle_request(request)
        with guard("hiding a usage chunk"):
            _hide(response, self._family, _sync_stream_class(self._family.SyncByteStream))
        return response


class AsyncUsageTransport(AsyncTimingTransport):
    """An async transport that times, and sees to it that streams tell their token counts."""

    def __init__(
        self, inner: object, family: Family, recorder: Recorder, *, owner: object = None
    ) -> None:
        super().__init__(_AsyncAsker(inner, family), family, recorder, owner=owner)

    async def handle_async_request(self, request: HttpRequest) -> HttpResponse:
        """Send a request; what it was made to tell beyond the asked is hidden."""
        response = await super().handle_async_request(request)
        with guard("hiding a usage chunk"):
            _hide(response, self._family, _async_stream_class(self._family.AsyncByteStream))
        return response


class _FilteredByteStream:
    """A blocking body without the usage chunk. The base class is the family's own."""

    def __init__(self, inner: ClosableBytes) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[bytes]:
        without = UsageFilter()
        chunks = iter(self._inner)
        try:
            for chunk in chunks:
                if rest := without.feed(chunk):
                    yield rest
        except Exception:
            if rest := without.release():
                yield rest  # as without us: first what came, then the error
            raise
        finally:
            if isinstance(chunks, Generator):
                chunks.close()
        if rest := without.finish():
            yield rest

    def close(self) -> None:
        self._inner.close()


class _AsyncFilteredByteStream:
    """An async body without the usage chunk. The base class is the family's own."""

    def __init__(self, inner: AsyncClosableBytes) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        without = UsageFilter()
        chunks = aiter(self._inner)
        try:
            async for chunk in chunks:
                if rest := without.feed(chunk):
                    yield rest
        except Exception:
            if rest := without.release():
                yield rest
            raise
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        if rest := without.finish():
            yield rest

    async def aclose(self) -> None:
        await self._inner.aclose()


@lru_cache(maxsize=8)
def _sync_stream_class(family_base: type) -> Callable[[object], object]:
    return type("FilteredByteStream", (_FilteredByteStream, family_base), {})


@lru_cache(maxsize=8)
def _async_stream_class(family_base: type) -> Callable[[object], object]:
    return type("AsyncFilteredByteStream", (_AsyncFilteredByteStream, family_base), {})


def _hide(response: HttpResponse, family: Family, stream_class: Callable[[object], object]) -> None:
    """Take the usage chunk out of a response that would not have had it."""
    if not response.extensions.pop(_ASKED, False) or response.status_code >= 300:
        return
    headers = cast(_Message, response).headers
    if headers.get("content-encoding", "identity") != "identity":
        return  # encoded although asked not to: left alone
    body = getattr(response, "_content", None)
    if isinstance(body, bytes):  # made in memory
        without = UsageFilter()
        body = without.feed(body) + without.finish()
        vars(response)["_content"] = body
        response.stream = cast(_Family, family).ByteStream(body)
    else:
        response.stream = stream_class(response.stream)
    headers.pop("content-length", None)


def _after_refusal(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    if response.status_code not in _REFUSALS:
        scheme, host, port, path = place = _place_of(request)
        if len(_refusing) >= _MAX_REFUSING:
            _refusing.clear()
        _refusing.add(place)
        warn_once(
            f"{scheme}://{host}{f':{port}' if port else ''}{path} refuses "
            f"stream_options.include_usage and is not asked again; its streams tell no token counts"
        )
    return response


def _place_of(request: HttpRequest) -> tuple[str, str, int | None, str]:
    url = request.url
    return url.scheme, url.host, url.port, url.path


def _with_usage(request: HttpRequest, family: _Family) -> HttpRequest | None:
    dialect = dialect_of(request)
    if dialect is None or dialect.name not in _DIALECTS or _is_signed(request.headers):
        return None
    try:
        body = asking_body(request.content.decode("utf-8"))
    except Exception:  # noqa: BLE001  a streamed body, or none that can be read: left alone
        return None
    if body is None:
        return None
    content = body.encode("utf-8")
    headers = cast(_Message, request).headers.copy()
    if "content-length" in headers:
        headers["content-length"] = str(len(content))
    headers["accept-encoding"] = "identity"  # the chunk has to be found in plain bytes
    return family.Request(
        request.method,
        request.url,
        headers=headers,
        content=content,
        extensions=request.extensions,
    )


def _is_signed(headers: Mapping[str, str]) -> bool:
    """Tell whether the body cannot be changed because a header vouches for it."""
    signed = headers.get("authorization", "").startswith("AWS4-")
    return signed or any(name in headers for name in _BODY_DIGESTS)


def asking_body(body: str) -> str | None:
    """Return a request body with `stream_options.include_usage`; None where it is not to be changed.

    Everything that is there stays as it is written. Not changed are bodies that ask for no stream,
    that say anything of `include_usage`, or whose `stream_options` is no object.

    Raises:
        ValueError: If the body is no JSON object.
    """
    members, end = _members(body)
    streams = [value for name, value, _ in members if name == "stream"]
    options = [(value, start) for name, value, start in members if name == "stream_options"]
    if streams != [True] or streams[0] is not True or len(options) > 1:
        return None
    if not options:
        return f'{body[:end]},"stream_options":{{{_OPTION}}}{body[end:]}'
    value, start = options[0]
    if not isinstance(value, dict) or "include_usage" in value:
        return None
    comma = "," if value else ""
    return f"{body[: start + 1]}{_OPTION}{comma}{body[start + 1 :]}"


def _members(text: str) -> tuple[list[tuple[object, object, int]], int]:
    """Return a JSON object's (name, value, where the value starts), and where its brace closes."""
    decode = json.JSONDecoder().raw_decode
    members: list[tuple[object, object, int]] = []
    at = _expect("{", text, 0)
    end = _past_white(text, at)
    if text[end : end + 1] == "}":
        return members, end
    while True:
        name, at = decode(text, _past_white(text, at))
        start = _past_white(text, _expect(":", text, at))
        value, at = decode(text, start)
        members.append((name, value, start))
        end = _past_white(text, at)
        if text[end : end + 1] == "}":
            if text[end + 1 :].strip(_WHITE):
                msg = "text after the object"
                raise ValueError(msg)
            return members, end
        at = _expect(",", text, at)


def _expect(mark: str, text: str, at: int) -> int:
    at = _past_white(text, at)
    if text[at : at + 1] != mark:
        msg = f"{mark!r} expected at {at}"
        raise ValueError(msg)
    return at + 1


def _past_white(text: str, at: int) -> int:
    while text[at : at + 1] in _WHITE and at < len(text):
        at += 1
    return at
