"""Before a run: is the server there, which model, and how does it want its requests written.

A run that cannot work fails here, in one clear line and before anything is written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from phasemeter.core.errors import UsageError
from phasemeter.load.ask import NoAnswerError, ask
from phasemeter.load.connecting import AUTOMATIC, Connecting
from phasemeter.load.handoff import decode_body, prefill_body
from phasemeter.load.prompts import TextLength
from phasemeter.load.proxy import proxy_for
from phasemeter.load.target import Api, Endpoint, RequestStyle, Target, Topology, parse_endpoint
from phasemeter.load.workload import RequestClass
from phasemeter.transports.arrivals import HAS_KERNEL_STAMPS

_TIMEOUT_S = 60.0
_SHORT_WORDS, _LONG_WORDS = 20, 220


def find_target(
    urls: Sequence[str],
    *,
    decode_urls: Sequence[str] = (),
    topology: Topology,
    model: str | None,
    api: Api | None,
    headers: Mapping[str, str],
    gpus: int | None = None,
    connecting: Connecting = AUTOMATIC,
) -> Target:
    """Try the endpoints and return the target that a run can be driven against.

    Args:
        urls: Base URLs (of the prefill instances when separated).
        decode_urls: Base URLs of the decode instances when separated.
        topology: How requests are spread.
        model: Model to ask for; None takes the only one that the server lists.
        api: Chat or completions; None takes completions where token-id prompts work, else chat.
        headers: Extra request headers.
        gpus: Accelerators (or cores) that serve the target.
        connecting: How connections are made.

    Raises:
        UsageError: If a URL is malformed, nothing answers there, or the server refuses.
    """
    parsed = [parse_endpoint(url) for url in urls]
    endpoints = tuple(_by_its_proxy(endpoint) for endpoint, _ in parsed)
    decoders = tuple(_by_its_proxy(parse_endpoint(url)[0]) for url in decode_urls)
    api = api or parsed[0][1]
    if connecting.stamps == "kernel":
        _refuse_without_kernel_stamps(endpoints + decoders)
    asker = _Asker(headers, connecting)
    for endpoint in endpoints[1:] + decoders:
        asker.get(endpoint, "/models")
    first = endpoints[0]
    model = model or _only_model(first, asker)
    style = _find_style(first, model, api, asker, decoders[0] if decoders else None)
    return Target(topology, endpoints, style, decoders, gpus, connecting)


def _refuse_without_kernel_stamps(endpoints: Iterable[Endpoint]) -> None:
    if not HAS_KERNEL_STAMPS:
        msg = "--stamps: this system has no kernel receive stamps; accepted: recv, auto"
        raise UsageError(msg)
    for endpoint in endpoints:
        if endpoint.socket_path:
            msg = (
                "--stamps: the kernel stamps nothing on a Unix socket "
                f"({endpoint.base_url}); accepted: recv, auto"
            )
            raise UsageError(msg)


def _by_its_proxy(endpoint: Endpoint) -> Endpoint:
    if endpoint.socket_path:
        return endpoint
    return replace(endpoint, proxy=proxy_for(endpoint.scheme, endpoint.host, endpoint.port))


def refuse_too_long(
    target: Target, classes: Iterable[RequestClass], *, headers: Mapping[str, str]
) -> None:
    """Compare what will be asked for with the longest sequence that the servers say they take.

    vLLM, SGLang and the lab engine list it as `max_model_len`; where a server does not, nothing is
    compared.

    Raises:
        UsageError: If a class's prompt and output do not fit.
    """
    asker = _Asker(headers, target.connecting)
    for endpoint in target.endpoints + target.decode_endpoints:
        _, answer = asker.get(endpoint, "/models")
        for model in _listed(answer):
            limit = model.get("max_model_len")
            if model.get("id") != target.style.model or not isinstance(limit, int):
                continue
            for one in classes:
                tokens = one.prompt_tokens + one.output_tokens
                if tokens > limit:
                    msg = (
                        f"{one.name}: a prompt of {one.prompt_tokens} and an output of "
                        f"{one.output_tokens} tokens; {endpoint.base_url} takes {limit} in all"
                    )
                    raise UsageError(msg)


def warm_up(target: Target, *, headers: Mapping[str, str], prompt_tokens: int = 256) -> None:
    """Have every instance serve one prompt that is in no record, so that none meets its first work.

    Raises:
        UsageError: If an instance does not answer.
    """
    asker = _Asker(headers, target.connecting)
    body = target.style.body(prompt_tokens, 8, uuid.uuid4().hex)
    pairs = max(len(target.endpoints), len(target.decode_endpoints))
    for turn in range(pairs):
        first = target.endpoints[turn % len(target.endpoints)]
        decoders = target.decode_endpoints
        decoder = decoders[turn % len(decoders)] if decoders else None
        status, answer = asker.complete(first, target.style, body, decoder)
        if status != 200:
            said = f"HTTP {status}: {_message(answer)}"
            msg = f"URL: {first.base_url} refuses a prompt of {prompt_tokens} tokens ({said})"
            raise UsageError(msg)


def _only_model(endpoint: Endpoint, asker: _Asker) -> str:
    _, answer = asker.get(endpoint, "/models")
    names = [model.get("id") for model in _listed(answer)]
    if len(names) == 1:
        return str(names[0])
    accepted = ", ".join(map(str, names)) or "any, the server lists none"
    msg = f"--model: is needed, since the server does not list exactly one; accepted: {accepted}"
    raise UsageError(msg)


def _find_style(
    endpoint: Endpoint,
    model: str,
    api: Api | None,
    asker: _Asker,
    decoder: Endpoint | None,
) -> RequestStyle:
    """Try the ways of writing a request, the most exact first."""
    ways: list[RequestStyle] = []
    if api != "chat":
        ways.append(RequestStyle("completions", model, prompt_ids=True))
    if api != "completions":
        ways.append(RequestStyle("chat", model))
    else:
        ways.append(RequestStyle("completions", model))
    plain = [replace(way, extensions=False) for way in ways]
    refusal = ""
    for way in ways + plain:
        body = way.body(8, 1, uuid.uuid4().hex)
        status, answer = asker.complete(endpoint, way, body, decoder)
        if status == 200:
            return way if way.prompt_ids else _measured(endpoint, way, asker, decoder)
        refusal = refusal or f"HTTP {status}: {_message(answer)}"
        if status in (401, 403):
            break
    msg = f"URL: {endpoint.base_url} refuses requests for model {model!r} ({refusal})"
    raise UsageError(msg)


def _measured(
    endpoint: Endpoint, way: RequestStyle, asker: _Asker, decoder: Endpoint | None
) -> RequestStyle:
    """Return the style with the length of its texts, as the server counts them."""
    counted: list[int] = []
    for number in (_SHORT_WORDS, _LONG_WORDS):
        body = way.body(number, 1, uuid.uuid4().hex)
        _, answer = asker.complete(endpoint, way, body, decoder)
        usage = answer.get("usage") if isinstance(answer, dict) else None
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not isinstance(tokens, int):
            msg = f"URL: {endpoint.base_url} tells no prompt length, so prompts cannot be sized"
            raise UsageError(msg)
        counted.append(tokens)
    per_word = (counted[1] - counted[0]) / (_LONG_WORDS - _SHORT_WORDS)
    if per_word <= 0:
        msg = f"URL: {endpoint.base_url} counts {counted} prompt tokens for 20 and 220 words"
        raise UsageError(msg)
    return replace(way, text_length=TextLength(counted[0] - per_word * _SHORT_WORDS, per_word))


class _Asker:
    """Asks endpoints with the run's own headers and connections."""

    def __init__(self, headers: Mapping[str, str], connecting: Connecting) -> None:
        self._headers = headers
        self._connecting = connecting

    def get(self, endpoint: Endpoint, path: str) -> tuple[int, object]:
        """Return status and JSON document of a path below the base URL."""
        return self._exchange(endpoint, endpoint.below(path), None)

    def complete(
        self,
        endpoint: Endpoint,
        way: RequestStyle,
        body: Mapping[str, object],
        decoder: Endpoint | None,
    ) -> tuple[int, object]:
        """Send one request without streaming, through both legs when separated."""
        path = endpoint.path(way.api)
        if decoder is not None:
            status, answer = self._exchange(endpoint, path, prefill_body(body))
            if status != 200:
                return status, answer
            handed = decode_body(body, answer)
            if handed is None:
                msg = (
                    f"URL: {endpoint.base_url} is no prefill instance: "
                    "no kv_transfer_params came back"
                )
                raise UsageError(msg)
            endpoint, body, path = decoder, handed, decoder.path(way.api)
        plain = {name: value for name, value in body.items() if name != "stream_options"}
        return self._exchange(endpoint, path, {**plain, "stream": False})

    def _exchange(
        self, endpoint: Endpoint, path: str, body: Mapping[str, object] | None
    ) -> tuple[int, object]:
        try:
            answer = ask(
                endpoint,
                path,
                body,
                headers=self._headers,
                connecting=self._connecting,
                timeout_s=_TIMEOUT_S,
            )
        except NoAnswerError as fault:
            through = "" if endpoint.proxy is None else f" through proxy {endpoint.proxy.authority}"
            msg = f"URL: nothing usable answers at {endpoint.base_url}{through} ({fault})"
            raise UsageError(msg) from fault
        if 300 <= answer.status < 400:
            place = answer.headers.get("location")
            msg = f"URL: {endpoint.base_url} redirects to {place}; use that URL"
            raise UsageError(msg)
        try:
            return answer.status, json.loads(answer.body)
        except (ValueError, RecursionError):
            return answer.status, None


def _listed(answer: object) -> list[dict[str, object]]:
    """Return the models of a `/models` answer."""
    listed = answer.get("data") if isinstance(answer, dict) else None
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _message(answer: object) -> str:
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message)[:200] if message else "no message"
