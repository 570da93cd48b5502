"""What is known of a request before its response: taken from the URL and two fields of the body."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Protocol

from phasemeter.core.decoding import Dialect
from phasemeter.core.errors import UsageError, warn_once
from phasemeter.dialects import asks_for_stream, by_name, for_path, requested_model

_PROVIDERS: tuple[tuple[str, str], ...] = (
    (".openai.azure.com", "azure.ai.openai"),
    (".services.ai.azure.com", "azure.ai.inference"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("api.anthropic.com", "anthropic"),
    ("api.openai.com", "openai"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
)
_PROVIDER_OF_VENDOR = {"gemini": "gcp.gemini"}
_DEFAULT_PORTS = {"http": 80, "https": 443}

EXTENSION = "phasemeter"
"""Key of a request's extensions under which its user may say how it is to be timed."""
_MAX_SEARCHED_BYTES = 4_194_304
_NUMBERS = count(secrets.randbits(48))


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request that was started.

    Attributes:
        request_id: Identifier, unique across processes; the Timeline carries the same.
        dialect: Wire dialect, for instance `openai.chat`.
        operation: The operation name of the OpenTelemetry conventions.
        provider: The provider name of the OpenTelemetry conventions: by host name where the host is
            known, else the vendor whose dialect is spoken.
        model: Requested model, None where the request does not tell.
        server_address: Host name of the server, None where there is no server (plain iterators).
        server_port: Port of the server, the scheme's own where the URL names none.
        started_ns: Just before the request was issued, monotonic clock.
        streamed: True when a stream was asked for.
        tags: Low-cardinality labels of the caller.
    """

    request_id: str
    dialect: str
    operation: str
    provider: str
    model: str | None
    server_address: str | None
    server_port: int | None
    started_ns: int
    streamed: bool
    tags: Mapping[str, str] = field(default_factory=dict)


class HttpUrl(Protocol):
    """What is used of a URL of httpx or httpx2."""

    @property
    def scheme(self) -> str: ...  # noqa: D102
    @property
    def host(self) -> str: ...  # noqa: D102
    @property
    def port(self) -> int | None: ...  # noqa: D102
    @property
    def path(self) -> str: ...  # noqa: D102


class HttpRequest(Protocol):
    """What is used of a request of httpx or httpx2."""

    @property
    def method(self) -> str: ...  # noqa: D102
    @property
    def url(self) -> HttpUrl: ...  # noqa: D102
    @property
    def headers(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def content(self) -> bytes: ...  # noqa: D102
    @property
    def extensions(self) -> Mapping[str, object]: ...  # noqa: D102


def dialect_of(request: HttpRequest) -> Dialect | None:
    """Return the dialect that a request speaks, or None where it is none of ours.

    What the request's user says goes first: the extension `{"phasemeter": {"dialect": NAME}}`, where the
    name None means that it is not to be timed. Else a POST is known by its path, or by its body.
    """
    if EXTENSION in request.extensions:
        try:
            return _said(request.extensions[EXTENSION])
        except UsageError as fault:
            warn_once(f"a request's extensions[{EXTENSION!r}]: {fault}")  # else by path and body
    if request.method != "POST":
        return None
    return for_path(request.url.path) or _dialect_of_body(request)


def _said(options: object) -> Dialect | None:
    if not isinstance(options, Mapping) or set(options) != {"dialect"}:
        msg = f'{type(options).__name__} is not accepted; accepted: {{"dialect": name or None}}'
        raise UsageError(msg)
    name = options["dialect"]
    return None if name is None else by_name(str(name))


def _dialect_of_body(request: HttpRequest) -> Dialect | None:
    """Return the dialect of a body that asks a model to stream the answer to messages.

    For gateways with paths of their own. Only what these two dialects have in common with no other
    counts: a model, messages with roles, and `stream`.
    """
    if "json" not in request.headers.get("content-type", ""):
        return None
    try:
        content = request.content
    except Exception:  # noqa: BLE001  a streamed body cannot be looked at
        return None
    if len(content) > _MAX_SEARCHED_BYTES or b'"messages"' not in content:
        return None  # cheap, for everything else that is sent as JSON
    body = _body(request)
    messages = body.get("messages")
    if body.get("stream") is not True or not isinstance(messages, list) or not messages:
        return None
    if not all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in messages):
        return None
    if "anthropic_version" in body or "anthropic-version" in request.headers:
        return by_name("anthropic.messages")
    return by_name("openai.chat") if isinstance(body.get("model"), str) else None


def new_request_id() -> str:
    """Return an identifier that is unique across processes and forks."""
    return f"{os.getpid():x}-{next(_NUMBERS):012x}"


def describe(
    request: HttpRequest, dialect: Dialect, *, started_ns: int, tags: Mapping[str, str]
) -> RequestInfo:
    """Return what is known of a request; its body is looked at for `model` and `stream` only."""
    body = _body(request)
    url = request.url
    path = url.path
    return RequestInfo(
        request_id=new_request_id(),
        dialect=dialect.name,
        operation=dialect.operation,
        provider=provider_of(url.host, dialect.name),
        model=requested_model(path, body),
        server_address=url.host or None,
        server_port=url.port or _DEFAULT_PORTS.get(url.scheme),
        started_ns=started_ns,
        streamed=asks_for_stream(path, body),
        tags=tags,
    )


@lru_cache(maxsize=256)
def provider_of(host: str, dialect_name: str) -> str:
    """Return the `gen_ai.provider.name` for a host; the dialect's vendor where it is unknown."""
    for suffix, provider in _PROVIDERS:
        if host.endswith(suffix):
            return provider
    vendor = dialect_name.partition(".")[0]
    return _PROVIDER_OF_VENDOR.get(vendor, vendor)


def _body(request: HttpRequest) -> Mapping[str, object]:
    try:
        document = json.loads(request.content)
    except Exception:  # noqa: BLE001  a body that is streamed or no JSON tells nothing
        return {}
    return document if isinstance(document, dict) else {}
