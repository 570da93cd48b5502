"""Every way in which an application gets at a stream, made alike: start it, take items, leave.

Works with whatever versions of the client libraries are installed; a surface that they lack is left out.
"""

import importlib.util
import ssl
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import requires

from tests.clients.wires import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Wire

MODEL = "m"
_CHAT_MESSAGES = [{"role": "user", "content": "hi"}]
_TLS = ssl.create_default_context()  # one for all: reading the certificates takes longest


def _installed(*names):
    return [
        importlib.import_module(name)
        for name in names
        if importlib.util.find_spec(name) is not None
    ]


FAMILIES = {module.__name__: module for module in _installed("httpx", "httpx2")}
(OPENAI,) = _installed("openai") or (None,)
(ANTHROPIC,) = _installed("anthropic") or (None,)


@cache
def family_of(package):
    """The HTTP library that a client library stands on."""
    needs = [one for one in requires(package) or () if "extra ==" not in one]
    return FAMILIES["httpx2" if any(one.startswith("httpx2") for one in needs) else "httpx"]


def http_client(family, *, is_async, timeout):
    cls = family.AsyncClient if is_async else family.Client
    return cls(verify=_TLS, timeout=timeout)


class Handle:
    """An HTTP response as a stream of lines that is left like the others."""

    def __init__(self, response, manager):
        self.response = response
        self._manager = manager
        self._lines = response.iter_lines()

    def __next__(self):
        return next(self._lines)

    def __iter__(self):
        return self._lines

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self._manager.__exit__(*error)

    def close(self):
        self.response.close()


class AsyncHandle:
    """The same for async."""

    def __init__(self, response, manager, lines):
        self.response = response
        self._manager = manager
        self._lines = lines

    async def __anext__(self):
        return await anext(self._lines)

    def __aiter__(self):
        return self._lines

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return await self._manager.__aexit__(*error)

    async def close(self):
        await (getattr(self.response, "aclose", None) or self.response.close)()


@dataclass(frozen=True)
class Surface:
    """One way to a stream.

    Attributes:
        name: For test ids.
        wire: What the server sends for it.
        client: (url, is_async, timeout) -> a client that is not timed.
        ask: client -> a stream, or for an async client an awaitable of one.
        whole: client -> the same question without a stream; None where there is none.
        raises: Server errors come as exceptions; else the response is an answer like another.
        pulled: Timed at the pull by time_stream().
        instrumented: Timed by instrument(); the client is left alone.
    """

    name: str
    wire: Wire
    client: object
    ask: object
    whole: object = None
    raises: bool = True
    pulled: bool = False
    instrumented: bool = False


def _openai(url, *, is_async, timeout=5.0, cls=None, **options):
    cls = cls or (OPENAI.AsyncOpenAI if is_async else OPENAI.OpenAI)
    http = http_client(family_of("openai"), is_async=is_async, timeout=timeout)
    return cls(base_url=url, api_key="k", max_retries=0, http_client=http, **options)


def _azure(url, *, is_async, timeout=5.0):
    cls = OPENAI.AsyncAzureOpenAI if is_async else OPENAI.AzureOpenAI
    return _openai(
        url + "/openai/deployments/d", is_async=is_async, timeout=timeout, cls=cls, api_version="v"
    )


def _anthropic(url, *, is_async, timeout=5.0):
    cls = ANTHROPIC.AsyncAnthropic if is_async else ANTHROPIC.Anthropic
    http = http_client(family_of("anthropic"), is_async=is_async, timeout=timeout)
    return cls(base_url=url, api_key="k", max_retries=0, http_client=http)


def _is_async(client):
    return type(client).__name__.startswith("Async")


def _chat(client, **options):
    return client.chat.completions.create(model=MODEL, messages=_CHAT_MESSAGES, **options)


def _completions(client, **options):
    return client.completions.create(model=MODEL, prompt="hi", **options)


def _responses(client, **options):
    return client.responses.create(model=MODEL, input="hi", **options)


def _messages(client, **options):
    return client.messages.create(model=MODEL, max_tokens=9, messages=_CHAT_MESSAGES, **options)


def _beta_messages(client, **options):
    return client.beta.messages.create(
        model=MODEL, max_tokens=9, messages=_CHAT_MESSAGES, **options
    )


def _streamed(ask):
    return lambda client: ask(client, stream=True)


def _entered(manager_of):
    """The stream that a `.stream()` helper's manager gives."""

    def ask(client):
        manager = manager_of(client)
        return manager.__aenter__() if _is_async(client) else manager.__enter__()

    return ask


def _chat_helper(client):
    completions = client.chat.completions
    completions = completions if hasattr(completions, "stream") else client.beta.chat.completions
    return completions.stream(model=MODEL, messages=_CHAT_MESSAGES)


def _raw(ask_raw):
    """with_raw_response, then parse()."""

    def ask(client):
        if not _is_async(client):
            return ask_raw(client).parse()

        async def later():
            parsed = (await ask_raw(client)).parse()
            return await parsed if hasattr(parsed, "__await__") else parsed

        return later()

    return ask


def _lines_of(manager_of):
    """A manager of a response that is read line by line: with_streaming_response, httpx."""

    def ask(client):
        manager = manager_of(client)
        if not _is_async(client):
            return Handle(manager.__enter__(), manager)

        async def later():
            response = await manager.__aenter__()
            lines = getattr(response, "aiter_lines", None) or response.iter_lines
            return AsyncHandle(response, manager, lines())

        return later()

    return ask


def _posted(client):
    body = {"model": MODEL, "stream": True}
    return client.stream("POST", client.base_url, json=body)


def _http(name):
    def client(url, *, is_async, timeout=5.0):
        client = http_client(FAMILIES[name], is_async=is_async, timeout=timeout)
        client.base_url = url + "/v1/chat/completions"
        return client

    return client


def _whole_http(client):
    return client.post(client.base_url, json={"model": MODEL})


def _all():
    if OPENAI is not None:
        raw = {"stream": True, "model": MODEL}
        chat_raw = {**raw, "messages": _CHAT_MESSAGES}
        yield Surface("chat", CHAT, _openai, _streamed(_chat), _chat)
        yield Surface("azure-chat", CHAT, _azure, _streamed(_chat), _chat)
        yield Surface("completions", COMPLETIONS, _openai, _streamed(_completions), _completions)
        yield Surface("chat-helper", CHAT, _openai, _entered(_chat_helper))
        yield Surface(
            "chat-raw",
            CHAT,
            _openai,
            _raw(lambda c: c.chat.completions.with_raw_response.create(**chat_raw)),
            lambda c: c.chat.completions.with_raw_response.create(
                model=MODEL, messages=_CHAT_MESSAGES
            ),
        )
        yield Surface(
            "chat-streaming-response",
            CHAT,
            _openai,
            _lines_of(lambda c: c.chat.completions.with_streaming_response.create(**chat_raw)),
            raises=False,
        )
        yield Surface("time-stream", CHAT, _openai, _streamed(_chat), pulled=True)
    if OPENAI is not None and hasattr(OPENAI.OpenAI, "responses"):
        yield Surface("responses", RESPONSES, _openai, _streamed(_responses), _responses)
        if hasattr(_openai("http://x", is_async=False).responses, "stream"):
            yield Surface(
                "responses-helper",
                RESPONSES,
                _openai,
                _entered(lambda c: c.responses.stream(model=MODEL, input="hi")),
            )
    if ANTHROPIC is not None:
        kwargs = {"model": MODEL, "max_tokens": 9, "messages": _CHAT_MESSAGES}
        yield Surface("messages", MESSAGES, _anthropic, _streamed(_messages), _messages)
        yield Surface(
            "messages-helper",
            MESSAGES,
            _anthropic,
            _entered(lambda c: c.messages.stream(**kwargs)),
        )
        yield Surface(
            "messages-raw",
            MESSAGES,
            _anthropic,
            _raw(lambda c: c.messages.with_raw_response.create(stream=True, **kwargs)),
            lambda c: c.messages.with_raw_response.create(**kwargs),
        )
        yield Surface(
            "messages-streaming-response",
            MESSAGES,
            _anthropic,
            _lines_of(lambda c: c.messages.with_streaming_response.create(stream=True, **kwargs)),
            raises=False,
        )
        if hasattr(_anthropic("http://x", is_async=False).beta, "messages"):
            yield Surface(
                "beta-messages",
                MESSAGES,
                _anthropic,
                _streamed(_beta_messages),
                _beta_messages,
            )
    for name in FAMILIES:
        yield Surface(name, CHAT, _http(name), _lines_of(_posted), _whole_http, raises=False)


SURFACES = {surface.name: surface for surface in _all()}
INSTRUMENTED = [
    replace(SURFACES[name], name=f"instrumented-{name}", instrumented=True)
    for name in ("chat", "responses", "messages", "httpx", "httpx2")
    if name in SURFACES
]


def close_client(client):
    """Close a client; for an async one an awaitable."""
    return (getattr(client, "aclose", None) or client.close)()


def response_of(stream):
    """The HTTP response under a stream."""
    for way in ("response", "_response", "_raw_stream", "_source", "http_response"):
        inner = getattr(stream, way, None)
        if inner is not None:
            return response_of(inner)
    return stream


def busy_connections(client):
    """Connections of a client's pool that it could not use for a further request."""
    http = getattr(client, "_client", client)
    return sum(not (one.is_idle() or one.is_closed()) for one in http._transport._pool.connections)
