"""Clients of the openai and anthropic packages: the same client over a timed HTTP client.

Both packages are built to one pattern, so one adapter serves them: every client (blocking and async, those
for Azure, Bedrock, Vertex and the like, and subclasses) is an `_base_client.SyncAPIClient` or
`AsyncAPIClient` that sends through the HTTP client in `_client`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol, cast

from phasemeter.clients import httpx_client
from phasemeter.transports.recorder import Recorder

_MODULES = ("openai._base_client", "anthropic._base_client")
_CLASSES = ("SyncAPIClient", "AsyncAPIClient")


class _ApiClient(Protocol):
    _client: object

    def with_options(self, *, http_client: object) -> object: ...


class ApiClientAdapter:
    """Clients of the openai and anthropic packages, on httpx or on httpx2."""

    def accepts(self, client: object) -> bool:
        """Tell whether the client is a client of one of the packages, or a subclass of one."""
        return any(
            cls.__module__ in _MODULES and cls.__name__ in _CLASSES for cls in type(client).__mro__
        )

    def timed(self, client: object, recorder: Recorder, *, inject_usage: bool = False) -> object:
        """Return a client of the same type with the same options, over a timed HTTP client."""
        source = cast(_ApiClient, client)
        timed = httpx_client.ADAPTER.timed
        http_client = timed(source._client, recorder, inject_usage=inject_usage)
        if http_client is source._client:
            return client
        try:
            twin = source.with_options(http_client=http_client)
        except TypeError as fault:
            # A subclass whose constructor takes other arguments cannot be copied by its library.
            return _field_by_field(source, http_client, fault)
        vars(twin).update(_left_out(source, vars(twin)))
        return twin


ADAPTER = ApiClientAdapter()


def _left_out(source: _ApiClient, copied: Mapping[str, object]) -> dict[str, object]:
    """Return what the library's own copy leaves out: fields set by the user, and strict validation."""
    fields = {name: value for name, value in _own_fields(source).items() if name not in copied}
    strict = "_strict_response_validation"
    return fields | {strict: getattr(source, strict, False)}


def _own_fields(source: _ApiClient) -> dict[str, object]:
    """Return a client's fields without its cached resources, which refer to that client."""
    cls = type(source)
    return {
        name: value
        for name, value in vars(source).items()
        if not isinstance(getattr(cls, name, None), cached_property)
    }


def _field_by_field(source: _ApiClient, http_client: object, fault: TypeError) -> object:
    """Return a client with the fields of another, without a call of its constructor."""
    cls = type(source)
    fields = _own_fields(source)
    if any(getattr(value, "_client", None) is source for value in fields.values()):
        # Versions that make their resources in the constructor.
        msg = (
            f"wrap() cannot copy a {cls.__module__}.{cls.__qualname__} ({fault}); give it a timed "
            f"HTTP client instead: http_client=phasemeter.wrap(httpx.Client())"
        )
        raise TypeError(msg) from fault
    twin: _ApiClient = object.__new__(cls)
    vars(twin).update(fields)
    twin._client = http_client
    make_chain = getattr(twin, "_build_middleware_chain", None)
    if callable(make_chain):
        vars(twin)["_middleware_chain"] = make_chain()  # it calls the client that made it
    return twin
