"""httpx and httpx2 clients: a copy of the same type over timing transports."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Protocol, cast

from phasemeter.transports.recorder import Recorder
from phasemeter.transports.timing import AsyncTimingTransport, Family, TimingTransport
from phasemeter.transports.usage_injection import AsyncUsageTransport, UsageAsker, UsageTransport

FAMILIES = ("httpx", "httpx2")
_OWN_CLIENTS = ("openai.", "anthropic.")
_TIMING = (TimingTransport, AsyncTimingTransport)
_INJECTING = (UsageTransport, AsyncUsageTransport)


class _HttpClient(Protocol):
    _transport: object
    _mounts: Mapping[object, object]


class HttpxAdapter:
    """Clients of httpx and httpx2, and subclasses of them."""

    def accepts(self, client: object) -> bool:
        """Tell whether the client is of one of the two families."""
        return family_of(client) is not None

    def timed(self, client: object, recorder: Recorder, *, inject_usage: bool = False) -> object:
        """Return a copy that shares the client's connections, cookies, headers and hooks."""
        if is_timed(client, recorder, inject_usage=inject_usage):
            return client
        family, is_async = _known_family(client)
        timing = timing_class(is_async=is_async, inject_usage=inject_usage)

        def timed_once(transport: object) -> object:
            if isinstance(transport, _TIMING) and transport.recorder is recorder:
                transport = transport.inner  # timed, but without the injection that is wanted now
            return timing(transport, family, recorder, owner=client)

        source = cast(_HttpClient, client)
        twin = cast(_HttpClient, _shallow_copy(client))
        twin._transport = timed_once(source._transport)
        twin._mounts = {
            pattern: None if mount is None else timed_once(mount)
            for pattern, mount in source._mounts.items()
        }
        return twin


ADAPTER = HttpxAdapter()


def family_of(client: object) -> tuple[Family, bool] | None:
    """Return (module object, is it async) of a client's family; None for anything else."""
    for cls in type(client).__mro__:
        package = cls.__module__.partition(".")[0]
        if package in FAMILIES and cls.__name__ in ("Client", "AsyncClient"):
            module = cast(Family, sys.modules[package])
            return module, cls.__name__ == "AsyncClient"
    return None


def is_timed(client: object, recorder: Recorder, *, inject_usage: bool = False) -> bool:
    """Tell whether a client's transport already reports to this recorder (and injects, if wanted)."""
    transport = getattr(client, "_transport", None)
    while isinstance(transport, (*_TIMING, UsageAsker)):
        if isinstance(transport, _TIMING) and transport.recorder is recorder:
            return isinstance(transport, _INJECTING) or not inject_usage
        transport = transport.inner
    return False


def timing_class(
    *, is_async: bool, inject_usage: bool
) -> type[TimingTransport] | type[AsyncTimingTransport]:
    """Return the transport that times, and asks streams for their token counts if wanted."""
    if inject_usage:
        return AsyncUsageTransport if is_async else UsageTransport
    return AsyncTimingTransport if is_async else TimingTransport


def _known_family(client: object) -> tuple[Family, bool]:
    found = family_of(client)
    if found is None:
        msg = f"not a client of httpx or httpx2: {type(client).__qualname__}"
        raise TypeError(msg)
    return found


def _shallow_copy(client: object) -> object:
    """Copy a client; of the HTTP clients of openai and anthropic the part without a finalizer.

    Those close their connections when they are collected. The copy shares connections with the
    original, which is kept alive and sees to that.
    """
    cls = type(client)
    if not cls.__module__.startswith(_OWN_CLIENTS):
        return copy.copy(client)
    plain = next(base for base in cls.__mro__ if not hasattr(base, "__del__"))
    twin: object = object.__new__(plain)
    twin.__dict__.update(client.__dict__)
    return twin
