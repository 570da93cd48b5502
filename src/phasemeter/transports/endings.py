"""How a response ended, told from the exception that ended it or from who closed it."""

from __future__ import annotations

import inspect
import sys
from types import FrameType

from phasemeter.core.meter import StreamEnd

_CLIENT_PACKAGES = ("openai", "anthropic")
_LIBRARIES = (*_CLIENT_PACKAGES, "httpx", "httpx2", "phasemeter", "contextlib")
_TIMEOUTS = ("TimeoutException", "APITimeoutError")
_EVENT_LOOPS = ("asyncio", "trio", "uvloop")
_GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def end_of(error: BaseException) -> tuple[StreamEnd, str | None]:
    """Return how a response ended by an exception, and its class for records and telemetry.

    Exceptions that are no `Exception` (cancellation, interrupt) mean that the caller stopped.
    """
    if isinstance(error, GeneratorExit):
        return StreamEnd.CLOSED, None
    if not isinstance(error, Exception):
        return StreamEnd.CLOSED, qualified_name(error)
    if is_timeout(error):
        return StreamEnd.TIMED_OUT, "timeout"
    return StreamEnd.LOST, qualified_name(error)


def is_timeout(error: BaseException) -> bool:
    """Tell whether an exception is a timeout: Python's own, of the httpx families, openai, anthropic."""
    return isinstance(error, TimeoutError) or any(
        cls.__name__ in _TIMEOUTS for cls in type(error).__mro__
    )


def qualified_name(error: BaseException) -> str:
    """Return an exception's public name, for instance `httpx.ReadError`; low cardinality."""
    cls = type(error)
    module = cls.__module__
    if module == "builtins":
        return cls.__qualname__
    # asyncio and the like define in `package.exceptions` what they publish as `package.Name`.
    return f"{module.removesuffix('.exceptions')}.{cls.__qualname__}"


def stop_in_flight() -> str | None:
    """Return the name of the cancellation or interrupt that is being handled here, or None."""
    error = sys.exception()
    if error is None or isinstance(error, Exception | GeneratorExit):
        return None
    return qualified_name(error)


def closed_by_collector(frame: FrameType | None) -> bool:
    """Tell whether a close comes from the clean-up of a library's dropped generator.

    The streams of the client libraries read through generators whose clean-up closes the response, and
    `client.stream()` of httpx is one. If the user drops such an object, the collector or the event loop
    closes it: GeneratorExit is in flight, and a generator of the library's stands between us and
    the user, or the loop. A deliberate close comes through plain methods, or, where the user's own
    generator is closed around `with client.stream()`, through contextlib. That the bytes of a response
    are iterated no further (a `break`) is the user's way of stopping.

    Args:
        frame: The frame of the close.
    """
    if not isinstance(sys.exception(), GeneratorExit):
        return False
    in_generator = in_manager = False
    below = ""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _LIBRARIES:
            left_with = below == "contextlib"
            return not left_with and (in_manager or (in_generator and package in _EVENT_LOOPS))
        if frame.f_code.co_flags & _GENERATOR_FLAGS:
            if package in _CLIENT_PACKAGES:
                return True
            in_generator = True
            in_manager = in_manager or frame.f_code.co_name == "stream"
        below = package
        frame = frame.f_back
    return False
