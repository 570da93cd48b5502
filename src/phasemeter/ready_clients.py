"""HTTP clients that are ready to use: timed, with the kernel's receive stamps where there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from phasemeter import settings
from phasemeter.clients.http_client import ready_client
from phasemeter.sdk import Meter, default_meter

if TYPE_CHECKING:
    import httpx
    import httpx2


@overload
def http_client(
    *,
    is_async: Literal[False] = False,
    family: Literal["httpx2"] | None = None,
    meter: Meter | None = None,
    inject_usage: bool | None = None,
    **options: object,
) -> httpx2.Client: ...
@overload
def http_client(
    *,
    is_async: Literal[True],
    family: Literal["httpx2"] | None = None,
    meter: Meter | None = None,
    inject_usage: bool | None = None,
    **options: object,
) -> httpx2.AsyncClient: ...
@overload
def http_client(
    *,
    is_async: Literal[False] = False,
    family: Literal["httpx"],
    meter: Meter | None = None,
    inject_usage: bool | None = None,
    **options: object,
) -> httpx.Client: ...
@overload
def http_client(
    *,
    is_async: Literal[True],
    family: Literal["httpx"],
    meter: Meter | None = None,
    inject_usage: bool | None = None,
    **options: object,
) -> httpx.AsyncClient: ...
def http_client(
    *,
    is_async: bool = False,
    family: Literal["httpx2", "httpx"] | None = None,
    meter: Meter | None = None,
    inject_usage: bool | None = None,
    **options: object,
) -> object:
    """Return a new HTTP client that is timed, with the kernel's receive stamps where there are any.

    Give it to a client library, `openai.OpenAI(http_client=phasemeter.http_client())`, or use it as it is.
    Arrivals are then exact also while the application does not get to run. On Linux, over TCP, plain or
    TLS, blocking or under asyncio and uvloop, the stamp source is `kernel`; elsewhere it is `recv`.
    With PHASEMETER_DISABLED set, the client is a plain one.

    Args:
        is_async: Make an AsyncClient.
        family: Package of the client: `httpx2` or `httpx`; by default httpx2 where it is installed. openai
            since 3 and anthropic since 2 take httpx2's, older ones httpx's.
        meter: Meter to report to; the default one if None.
        inject_usage: As for `wrap`.
        **options: What the client's class takes (timeout, limits, proxy, verify, mounts, transport, ...).

    Raises:
        UsageError: If the family is unknown or not installed, or HTTP/2 is asked for.
    """
    if meter is None:
        meter = default_meter()
    if inject_usage is None:
        inject_usage = meter.inject_usage
    recorder = None if settings.from_environment().disabled else meter
    return ready_client(
        recorder, family=family, is_async=is_async, inject_usage=inject_usage, options=options
    )
