"""Where finished Timelines go. A new sink is a file; it needs no base class and no registration.

Built-in ones: `hdr.HdrSink`, `otel.OtelSink`, `records.RecordSink`, `callback.CallbackSink`.
"""

from __future__ import annotations

from typing import Protocol

from phasemeter.core.timeline import Timeline
from phasemeter.transports.request import RequestInfo

__all__ = ["RequestInfo", "Sink"]


class Sink(Protocol):
    """Takes what a Meter observes.

    Called on the thread that runs the request, several threads at a time if the application has
    several. What a sink raises reaches neither the application nor other sinks.
    """

    def started(self, request: RequestInfo) -> object:
        """Take a request that is about to be issued.

        Returns:
            Whatever the sink wants to find again in `finished` for the same request.
        """
        ...

    def finished(self, timeline: Timeline, state: object) -> None:
        """Take a response that ended; called once a request, in any order.

        Args:
            timeline: What was measured.
            state: What `started` returned for this request; None if it failed.
        """
        ...

    def close(self) -> None:
        """Write out what is held back. Nothing comes after it."""
        ...
