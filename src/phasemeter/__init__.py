"""phasemeter: a client-side phase meter for streamed LLM responses.

Public names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phasemeter.clients.lookup import timeline
    from phasemeter.core.errors import PhasemeterError, UsageError
    from phasemeter.core.timeline import Outcome, Timeline, Usage
    from phasemeter.core.token_events import TokenEvent, TokenKind
    from phasemeter.ready_clients import http_client
    from phasemeter.sdk import (
        Meter,
        instrument,
        snapshot,
        time_stream,
        uninstrument,
        wrap,
    )
    from phasemeter.sinks import RequestInfo, Sink
    from phasemeter.sinks.callback import CallbackSink
    from phasemeter.sinks.hdr import HdrSink
    from phasemeter.sinks.otel import OtelSink
    from phasemeter.sinks.records import RecordSink
    from phasemeter.transports.tags import tag

__all__ = [
    "CallbackSink",
    "HdrSink",
    "Meter",
    "OtelSink",
    "Outcome",
    "PhasemeterError",
    "RecordSink",
    "RequestInfo",
    "Sink",
    "Timeline",
    "TokenEvent",
    "TokenKind",
    "Usage",
    "UsageError",
    "__version__",
    "http_client",
    "instrument",
    "snapshot",
    "tag",
    "time_stream",
    "timeline",
    "uninstrument",
    "wrap",
]

_HOMES = {
    "CallbackSink": "phasemeter.sinks.callback",
    "HdrSink": "phasemeter.sinks.hdr",
    "Meter": "phasemeter.sdk",
    "OtelSink": "phasemeter.sinks.otel",
    "Outcome": "phasemeter.core.timeline",
    "PhasemeterError": "phasemeter.core.errors",
    "RecordSink": "phasemeter.sinks.records",
    "RequestInfo": "phasemeter.sinks",
    "Sink": "phasemeter.sinks",
    "Timeline": "phasemeter.core.timeline",
    "TokenEvent": "phasemeter.core.token_events",
    "TokenKind": "phasemeter.core.token_events",
    "Usage": "phasemeter.core.timeline",
    "UsageError": "phasemeter.core.errors",
    "http_client": "phasemeter.ready_clients",
    "instrument": "phasemeter.sdk",
    "snapshot": "phasemeter.sdk",
    "tag": "phasemeter.transports.tags",
    "time_stream": "phasemeter.sdk",
    "timeline": "phasemeter.clients.lookup",
    "uninstrument": "phasemeter.sdk",
    "wrap": "phasemeter.sdk",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("phasemeter")
    home = _HOMES.get(name)
    if home is None:
        msg = f"module 'phasemeter' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
