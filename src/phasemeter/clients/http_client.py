"""Ready clients of httpx or httpx2: timed, and stamped by the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from phasemeter.clients.httpx_client import timing_class
from phasemeter.core.errors import UsageError, guard
from phasemeter.transports.kernel import install_kernel_stamps
from phasemeter.transports.recorder import Recorder
from phasemeter.transports.timing import Family

_PREFERRED = ("httpx2", "httpx")


class _Family(Family, Protocol):
    Client: Callable[..., object]
    AsyncClient: Callable[..., object]


class _HttpClient(Protocol):
    _transport: object
    _mounts: Mapping[object, object]


def ready_client(
    recorder: Recorder | None,
    *,
    family: str | None,
    is_async: bool,
    inject_usage: bool,
    options: Mapping[str, object],
) -> object:
    """Return a new client whose connections have kernel stamps and whose responses are timed.

    Args:
        recorder: Where the findings go; with None the client is a plain one.
        family: Package, or None for the first that is installed.
        is_async: Make an AsyncClient.
        inject_usage: Ask streams for their token counts, where the request does not say.
        options: What the client's class takes.

    Raises:
        UsageError: If the family is unknown or not installed, or if HTTP/2 is asked for.
    """
    if options.get("http2"):
        msg = (
            "http2=True: kernel stamps need a connection for each response, which is HTTP/1.1; leave "
            "it out, or wrap() an HTTP/2 client, which is stamped where the client yields"
        )
        raise UsageError(msg)
    module = _family(family)
    client = cast(_HttpClient, (module.AsyncClient if is_async else module.Client)(**options))
    if recorder is None:
        return client
    timing = timing_class(is_async=is_async, inject_usage=inject_usage)

    def timed(transport: object) -> object:
        with guard("installing kernel stamps"):
            install_kernel_stamps(transport, recorder.now_ns, is_async=is_async)
        return timing(transport, module, recorder)

    client._transport = timed(client._transport)
    client._mounts = {
        pattern: None if mount is None else timed(mount)
        for pattern, mount in client._mounts.items()
    }
    return client


def _family(name: str | None) -> _Family:
    if name is not None and name not in _PREFERRED:
        msg = f"family: {name!r} is no HTTP library of these; accepted: 'httpx2', 'httpx'"
        raise UsageError(msg)
    for candidate in _PREFERRED if name is None else (name,):
        if find_spec(candidate) is not None:
            return cast(_Family, import_module(candidate))
    needed = name or "httpx2 or httpx"
    msg = f"http_client() needs {needed}, which is not installed: pip install 'phasemeter[httpx]'"
    raise UsageError(msg)
