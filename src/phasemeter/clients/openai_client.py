"""openai clients, blocking and async, Azure and subclasses: the same client over a timed HTTP client."""

from __future__ import annotations

from typing import Protocol, cast

from phasemeter.clients import httpx_client
from phasemeter.transports.recorder import Recorder

_CLASSES = ("OpenAI", "AsyncOpenAI")


class _OpenAI(Protocol):
    _client: object

    def with_options(self, *, http_client: object) -> object: ...


class OpenAIAdapter:
    """Clients of the openai package, on httpx (1.x, 2.x) or httpx2 (3.x)."""

    def accepts(self, client: object) -> bool:
        """Tell whether the client is an openai client or a subclass of one."""
        return any(
            cls.__module__.partition(".")[0] == "openai" and cls.__name__ in _CLASSES
            for cls in type(client).__mro__
        )

    def timed(self, client: object, recorder: Recorder) -> object:
        """Return a client of the same type with the same options, over a timed HTTP client."""
        source = cast(_OpenAI, client)
        if httpx_client.is_timed(source._client, recorder):
            return client
        return source.with_options(http_client=httpx_client.ADAPTER.timed(source._client, recorder))


ADAPTER = OpenAIAdapter()
