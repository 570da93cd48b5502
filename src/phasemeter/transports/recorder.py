"""What a transport hands its findings to: the seam between the wire and a Meter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phasemeter.core.timeline import Timeline
from phasemeter.transports.request import RequestInfo


class OpenCall(Protocol):
    """A request that was started and has not ended."""

    def abandon(self) -> None:
        """End it as abandoned at its last event; nothing if it has ended."""
        ...


class Recorder(Protocol):
    """Takes started and finished requests. `phasemeter.Meter` is the implementation.

    Attributes:
        now_ns: The clock that every stamp is read from.
    """

    @property
    def now_ns(self) -> Callable[[], int]: ...  # noqa: D102

    def started(self, info: RequestInfo, call: OpenCall) -> object:
        """Take a request that is about to be issued; what is returned comes back in `finished`.

        The call is held weakly, to be abandoned at the end of the process.
        """
        ...

    def finished(self, timeline: Timeline, state: object) -> None:
        """Take a response that ended."""
        ...

    def postpone(self, finish: Callable[[], None]) -> None:
        """Keep `finish` for later, when it is safe to run; called by the garbage collector.

        A finalizer may run at any allocation, also while this very thread holds a sink's lock, so
        nothing but the keeping may happen here.
        """
        ...
