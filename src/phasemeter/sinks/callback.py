"""A sink that calls a function for each response that ended."""

from __future__ import annotations

from collections.abc import Callable

from phasemeter.core.timeline import Timeline
from phasemeter.transports.request import RequestInfo


class CallbackSink:
    """Hands each finished Timeline to a function.

    The function runs on the thread that ran the request, before the end of the stream reaches the
    application: it should be quick.
    """

    def __init__(self, fn: Callable[[Timeline], object]) -> None:
        self._fn = fn

    def started(self, request: RequestInfo) -> None:
        """Nothing to do."""

    def finished(self, timeline: Timeline, state: object) -> None:
        """Call the function."""
        del state
        self._fn(timeline)

    def close(self) -> None:
        """Nothing to do."""
