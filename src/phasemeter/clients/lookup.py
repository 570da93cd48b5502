"""From a stream or response object back to what was measured of it."""

from __future__ import annotations

from collections.abc import Iterator

from phasemeter.clients.iterator import TimedAsyncIterator, TimedIterator
from phasemeter.core.timeline import Timeline
from phasemeter.settings import from_environment
from phasemeter.transports.call import EXTENSION, TimedCall

_WAYS = ("response", "http_response", "_response", "_raw_stream")
_WAYS_OF_MANAGERS = ("stream", "response")
_MAX_STEPS = 4


def timeline(stream: object) -> Timeline | None:
    """Return what was measured of a stream or response; None while it is running.

    With PHASEMETER_DISABLED set it is None for whatever was not timed.

    Accepts the streams of the openai and anthropic packages, what their `.stream()` helpers give and
    the managers that give it, raw and streaming responses, a response of httpx or httpx2, and what
    `time_stream` returned. The parsed result of a call that was not streamed does not lead back to
    its response: use `with_raw_response`, or a sink.

    Raises:
        LookupError: If the object was not timed.
    """
    if isinstance(stream, TimedIterator | TimedAsyncIterator):
        return stream.timeline
    call = _call_of(stream, _MAX_STEPS)
    if call is None:
        if from_environment().disabled:
            return None
        cls = type(stream)
        msg = (
            f"{cls.__module__}.{cls.__qualname__} was not timed: it does not come from a client that "
            f"went through phasemeter.wrap(), nor from phasemeter.time_stream(), or its endpoint "
            f"speaks no known dialect"
        )
        raise LookupError(msg)
    return call.timeline


def _call_of(stream: object, steps: int) -> TimedCall | None:
    extensions = getattr(stream, "extensions", None)
    if isinstance(extensions, dict) and isinstance(extensions.get(EXTENSION), TimedCall):
        call = extensions[EXTENSION]
        return call if isinstance(call, TimedCall) else None
    if not steps:
        return None
    for inner in _inner_of(stream):
        call = _call_of(inner, steps - 1)
        if call is not None:
            return call
    return None


def _inner_of(stream: object) -> Iterator[object]:
    """Yield what an object may have got its bytes from."""
    for way in _WAYS:
        inner = getattr(stream, way, None)
        if inner is not None and not isinstance(inner, type):
            yield inner
    # The managers that `.stream()` and `with_streaming_response` return keep it private.
    own = getattr(stream, "__dict__", {})
    for cls in type(stream).__mro__:
        for way in _WAYS_OF_MANAGERS:
            inner = own.get(f"_{cls.__name__.lstrip('_')}__{way}")
            if inner is not None:
                yield inner
