"""Before a run: is the server there, which model, and how does it want its requests written.

A run that cannot work fails here, in one clear line and before anything is written.
"""

from __future__ import annotations

import http.client
import json
import ssl
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from phasemeter.core.errors import UsageError
from phasemeter.load.connecting import AUTOMATIC, Connecting
from phasemeter.load.handoff import decode_body, prefill_body
from phasemeter.load.prompts import TextLength
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
    if connecting.stamps == "kernel" and not HAS_KERNEL_STAMPS:
        msg = "--stamps: this system has no kernel receive stamps; accepted: recv, auto"
        raise UsageError(msg)
    parsed = [parse_endpoint(url) for url in urls]
    endpoints = tuple(endpoint for endpoint, _ in parsed)
    decoders = tuple(parse_endpoint(url)[0] for url in decode_urls)
    api = api or parsed[0][1]
    for endpoint in endpoints[1:] + decoders:
        _get(endpoint, "/models", headers)
    first = endpoints[0]
    model = model or _only_model(first, headers)
    style = _find_style(first, model, api, headers, decoders[0] if decoders else None)
    return Target(topology, endpoints, style, decoders, gpus, connecting)


def refuse_too_long(
    target: Target, classes: Iterable[RequestClass], *, headers: Mapping[str, str]
) -> None:
    """Compare what will be asked for with the longest sequence that the servers say they take.

    vLLM, SGLang and the lab engine list it as `max_model_len`; where a server does not, nothing is
    compared.

    Raises:
        UsageError: If a class's prompt and output do not fit.
    """
    for endpoint in target.endpoints + target.decode_endpoints:
        _, answer = _get(endpoint, "/models", headers)
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
    body = target.style.body(prompt_tokens, 8, uuid.uuid4().hex)
    pairs = max(len(target.endpoints), len(target.decode_endpoints))
    for turn in range(pairs):
        first = target.endpoints[turn % len(target.endpoints)]
        decoders = target.decode_endpoints
        decoder = decoders[turn % len(decoders)] if decoders else None
        status, answer = _ask(first, target.style, body, headers, decoder)
        if status != 200:
            said = f"HTTP {status}: {_message(answer)}"
            msg = f"URL: {first.base_url} refuses a prompt of {prompt_tokens} tokens ({said})"
            raise UsageError(msg)


def _only_model(endpoint: Endpoint, headers: Mapping[str, str]) -> str:
    _, answer = _get(endpoint, "/models", headers)
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
    headers: Mapping[str, str],
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
        status, answer = _ask(endpoint, way, way.body(8, 1, uuid.uuid4().hex), headers, decoder)
        if status == 200:
            return way if way.prompt_ids else _measured(endpoint, way, headers, decoder)
        refusal = refusal or f"HTTP {status}: {_message(answer)}"
        if status in (401, 403):
            break
    msg = f"URL: {endpoint.base_url} refuses requests for model {model!r} ({refusal})"
    raise UsageError(msg)


def _measured(
    endpoint: Endpoint, way: RequestStyle, headers: Mapping[str, str], decoder: Endpoint | None
) -> RequestStyle:
    """Return the style with the length of its texts, as the server counts them."""
    counted: list[int] = []
    for number in (_SHORT_WORDS, _LONG_WORDS):
        body = way.body(number, 1, uuid.uuid4().hex)
        _, answer = _ask(endpoint, way, body, headers, decoder)
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


def _ask(
    endpoint: Endpoint,
    way: RequestStyle,
    body: Mapping[str, object],
    headers: Mapping[str, str],
    decoder: Endpoint | None,
) -> tuple[int, object]:
    """Send one request without streaming, through both legs when separated."""
    path = endpoint.path(way.api)
    if decoder is not None:
        status, answer = _exchange(endpoint, "POST", path, prefill_body(body), headers)
        if status != 200:
            return status, answer
        handed = decode_body(body, answer)
        if handed is None:
            msg = (
                f"URL: {endpoint.base_url} is no prefill instance: no kv_transfer_params came back"
            )
            raise UsageError(msg)
        endpoint, body, path = decoder, handed, decoder.path(way.api)
    plain = {name: value for name, value in body.items() if name != "stream_options"}
    return _exchange(endpoint, "POST", path, {**plain, "stream": False}, headers)


def _listed(answer: object) -> list[dict[str, object]]:
    """Return the models of a `/models` answer."""
    listed = answer.get("data") if isinstance(answer, dict) else None
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _get(endpoint: Endpoint, path: str, headers: Mapping[str, str]) -> tuple[int, object]:
    return _exchange(endpoint, "GET", endpoint.below(path), None, headers)


def _exchange(
    endpoint: Endpoint,
    method: str,
    path: str,
    body: Mapping[str, object] | None,
    headers: Mapping[str, str],
) -> tuple[int, object]:
    connection: http.client.HTTPConnection
    if endpoint.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            endpoint.host, endpoint.port, timeout=_TIMEOUT_S, context=context
        )
    else:
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=_TIMEOUT_S)
    content = None if body is None else json.dumps(body)
    try:
        connection.request(method, path, content, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        status, data = response.status, response.read()
    except (OSError, http.client.HTTPException, UnicodeError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
        msg = f"URL: nothing usable answers at {endpoint.base_url} ({reason})"
        raise UsageError(msg) from fault
    finally:
        connection.close()
    if 300 <= status < 400:
        msg = (
            f"URL: {endpoint.base_url} redirects to {response.getheader('Location')}; use that URL"
        )
        raise UsageError(msg)
    try:
        return status, json.loads(data)
    except ValueError:
        return status, None


def _message(answer: object) -> str:
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message)[:200] if message else "no message"
