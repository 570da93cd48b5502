"""Where requests go: endpoints, topology, and how this server wants its requests written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from phasemeter.core.errors import UsageError
from phasemeter.load.connecting import AUTOMATIC, Connecting
from phasemeter.load.handoff import DEFAULT_BOOTSTRAP_PORT, Handoff
from phasemeter.load.prompts import TextLength, token_ids, words
from phasemeter.load.proxy import Proxy

Api = Literal["chat", "completions"]
Topology = Literal["single", "replicated", "class-routed", "separated", "proxied"]

_UNIX = "http+unix"
_UNIX_FORM = "http+unix://%2Fpath%2Fof%2Fsocket[/PATH], absolute, at most 103 bytes"
_LONGEST_SOCKET_PATH = 103  # what the strictest system takes, macOS
_ACCEPTED = "accepted: http[s]://HOST[:PORT][/PATH], or http+unix://%2Fpath%2Fof%2Fsocket[/PATH]"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PATHS: dict[Api, str] = {"chat": "/chat/completions", "completions": "/completions"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible base URL, taken apart.

    Attributes:
        scheme: `http` or `https`.
        host: Host name or address.
        port: TCP port.
        base_path: Path before `/chat/completions`, for instance `/v1`.
        query: Query that goes with every request, such as a service's `api-version=...`; it may
            hold a key, so it is in neither `repr` nor the manifest.
        socket_path: Unix socket to connect to instead of host and port, or an empty text.
        proxy: HTTP proxy to go through, or None.
    """

    scheme: str
    host: str
    port: int
    base_path: str
    query: str = field(default="", repr=False)
    socket_path: str = ""
    proxy: Proxy | None = None

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def host_header(self) -> str:
        """Value of the Host header: the port only where it is not the scheme's own."""
        usual = self.port == _DEFAULT_PORTS[self.scheme]
        return self.authority.rpartition(":")[0] if usual else self.authority

    @property
    def base_url(self) -> str:
        """The base URL, without its query."""
        if self.socket_path:
            return f"http+unix://{quote(self.socket_path, safe='')}{self.base_path}"
        return f"{self.scheme}://{self.authority}{self.base_path}"

    def path(self, api: Api) -> str:
        """Return the path of an API below the base URL, with the query."""
        return self.below(_PATHS[api])

    def below(self, path: str) -> str:
        """Return a path below the base URL, with the query."""
        return self.base_path + path + (f"?{self.query}" if self.query else "")


def parse_endpoint(url: str, field_name: str = "URL") -> tuple[Endpoint, Api | None]:
    """Read a base URL (`/v1` is added to a bare host) or the full URL of a completions endpoint.

    Returns:
        The endpoint, and the API where the URL itself names one.

    Raises:
        UsageError: If the URL is not of the form http[s]://HOST[:PORT][/PATH][?QUERY] or
            http+unix://SOCKET[/PATH][?QUERY], SOCKET being a file's path with %2F for each slash.
    """
    try:
        parts = urlsplit(url)
        port = None if parts.scheme == _UNIX else parts.port
    except ValueError as fault:
        msg = f"{field_name}: {url!r} is not a URL ({fault}); {_ACCEPTED}"
        raise UsageError(msg) from fault
    if parts.scheme not in ("http", "https", _UNIX) or not (
        parts.netloc if parts.scheme == _UNIX else parts.hostname
    ):
        msg = f"{field_name}: {url!r} is not a URL; {_ACCEPTED}"
        raise UsageError(msg)
    if parts.username is not None or parts.password is not None:
        msg = (
            f"{field_name}: holds credentials; accepted: a URL without them, and --header for keys"
        )
        raise UsageError(msg)
    path = parts.path.rstrip("/")
    api: Api | None = None
    for name in ("chat", "completions"):  # the longer path first
        if path.endswith(_PATHS[name]):
            path, api = path.removesuffix(_PATHS[name]), name
            break
    line = path + parts.query
    if not line.isascii() or not line.isprintable() or " " in line or port == 0:
        msg = f"{field_name}: the URL has a path, query or port that no request can have"
        raise UsageError(msg)
    base_path = path if path or api else "/v1"
    if parts.scheme == _UNIX:
        socket_path = _socket_path(unquote(parts.netloc), field_name)
        return Endpoint("http", "localhost", 80, base_path, parts.query, socket_path), api
    if port is None:
        port = _DEFAULT_PORTS[parts.scheme]
    return Endpoint(parts.scheme, parts.hostname or "", port, base_path, parts.query), api


def _socket_path(path: str, field_name: str) -> str:
    if not path.startswith("/") or len(path.encode()) > _LONGEST_SOCKET_PATH or "\0" in path:
        msg = f"{field_name}: {path!r} is no Unix socket's path; accepted: {_UNIX_FORM}"
        raise UsageError(msg)
    return path


@dataclass(frozen=True, slots=True)
class RequestStyle:
    """How this server wants its requests written; found by the preflight.

    Attributes:
        api: Chat or legacy completions.
        model: Model to ask for.
        prompt_ids: Prompts are token ids (completions only), else text.
        extensions: The server knows what vLLM added to the API: `ignore_eos` and `min_tokens`, which
            force the output length, and running token counts in each event.
        text_length: Length of text prompts, where prompts are text.
    """

    api: Api
    model: str
    prompt_ids: bool = False
    extensions: bool = True
    text_length: TextLength | None = None

    def body(self, prompt_tokens: int, output_tokens: int, salt: str) -> dict[str, object]:
        """Return the body of a streamed request with a prompt that follows from the salt."""
        options: dict[str, object] = {"include_usage": True}
        if self.extensions:
            options["continuous_usage_stats"] = True
        body: dict[str, object] = {
            "model": self.model,
            "max_tokens": output_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": options,
        }
        if self.extensions:
            body |= {"ignore_eos": True, "min_tokens": output_tokens}
        if self.prompt_ids:
            body["prompt"] = token_ids(prompt_tokens, salt)
            return body
        length = self.text_length or TextLength(0.0, 1.0)  # until it is measured: words
        text = words(length.words_for(prompt_tokens), salt)
        if self.api == "chat":
            body["messages"] = [{"role": "user", "content": text}]
        else:
            body["prompt"] = text
        return body


@dataclass(frozen=True, slots=True)
class Target:
    """A system under test.

    Attributes:
        topology: `single`: one endpoint. `replicated`: each request to the next endpoint in turn.
            `class-routed`: each request class to endpoints of its own, in turn. `separated`: the
            prompt to a prefill instance, the stream from a decode instance, the hand-off carried by
            the client. `proxied`: one endpoint, behind which others do the work.
        endpoints: The endpoints; those of the prefill instances when separated.
        style: How requests are written.
        decode_endpoints: The decode instances when separated, else empty.
        gpus: Accelerators (or cores) that serve the target, or None where nobody said.
        connecting: How connections to it are made.
        routes: Numbers of the endpoints of each request class when class-routed, else empty.
        handoff: Whose protocol the two legs speak when separated.
        bootstrap_ports: Bootstrap port of each prefill instance, for SGLang's protocol.
    """

    topology: Topology
    endpoints: tuple[Endpoint, ...]
    style: RequestStyle
    decode_endpoints: tuple[Endpoint, ...] = ()
    gpus: int | None = None
    connecting: Connecting = AUTOMATIC
    routes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    handoff: Handoff = "vllm"
    bootstrap_ports: tuple[int, ...] = ()

    def route(self, class_name: str, number: int) -> int:
        """Return the number of the endpoint that the n-th request goes to.

        Raises:
            UsageError: If classes have endpoints of their own and this one has none.
        """
        if not self.routes:
            return number % len(self.endpoints)
        choices = self.routes.get(class_name)
        if choices is None:
            known = ", ".join(self.routes)
            msg = f"--class-routed: no instance for class {class_name!r}; accepted: {known}"
            raise UsageError(msg)
        return choices[number % len(choices)]

    def bootstrap_port(self, instance: int) -> int:
        """Return the bootstrap port of a prefill instance."""
        ports = self.bootstrap_ports or (DEFAULT_BOOTSTRAP_PORT,)
        return ports[instance % len(ports)]

    def as_document(self) -> dict[str, object]:
        """Return the target as JSON-ready values, for the run's manifest."""
        document = asdict(self)
        for name in ("endpoints", "decode_endpoints"):
            for endpoint, told in zip(getattr(self, name), document[name], strict=True):
                del told["query"]
                told["proxy"] = None if endpoint.proxy is None else endpoint.proxy.authority
        return document
