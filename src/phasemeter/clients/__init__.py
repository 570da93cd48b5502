"""Client adapters: how a timing transport gets under a client object. A new one is a file and a line."""

from __future__ import annotations

from typing import Protocol

from phasemeter.clients import api_client, httpx_client
from phasemeter.transports.recorder import Recorder


class ClientAdapter(Protocol):
    """Knows one kind of client; imports no client library."""

    def accepts(self, client: object) -> bool:
        """Tell whether this adapter knows the client."""
        ...

    def timed(self, client: object, recorder: Recorder, *, inject_usage: bool) -> object:
        """Return a timed client of the same type, or the same object if it is timed already."""
        ...


BUILTIN: tuple[ClientAdapter, ...] = (api_client.ADAPTER, httpx_client.ADAPTER)


def wrap(client: object, recorder: Recorder, *, inject_usage: bool = False) -> object:
    """Return a timed client of the same type.

    Args:
        client: What is to be timed.
        recorder: Where the findings go.
        inject_usage: Ask streams for their token counts, where the request does not say.

    Raises:
        TypeError: If no adapter knows the client.
    """
    for adapter in BUILTIN:
        if adapter.accepts(client):
            return adapter.timed(client, recorder, inject_usage=inject_usage)
    cls = type(client)
    msg = (
        f"wrap() takes a client of the openai or anthropic package (blocking or async, Azure, Bedrock "
        f"or Vertex ones and subclasses too) or a Client or AsyncClient of httpx or httpx2, "
        f"got {cls.__module__}.{cls.__qualname__}; "
        f"for anything that yields there is time_stream()"
    )
    raise TypeError(msg)
