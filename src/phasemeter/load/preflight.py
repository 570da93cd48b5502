"""Before a run: is the server there, which model, and how does it want its requests written.

A run that cannot work fails here, in one clear line and before anything is written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from phasemeter.core.errors import UsageError
from phasemeter.load.ask import Answer, NoAnswerError, Question, ask_together
from phasemeter.load.connecting import AUTOMATIC, Connecting
from phasemeter.load.handoff import Handoff, bootstrap_body, decode_body, prefill_body
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
    routes: Mapping[str, tuple[int, ...]] | None = None,
    handoff: Handoff = "vllm",
    bootstrap_ports: Sequence[int] = (),
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
        routes: Numbers of the URLs of each request class when class-routed.
        handoff: Whose protocol the two legs speak when separated.
        bootstrap_ports: Bootstrap port of each prefill instance, for SGLang's protocol.

    Raises:
        UsageError: If a URL is malformed, nothing answers there, or the server refuses.
    """
    parsed = [parse_endpoint(url) for url in urls]
    endpoints = tuple(_by_its_proxy(endpoint) for endpoint, _ in parsed)
    decoders = tuple(_by_its_proxy(parse_endpoint(url)[0]) for url in decode_urls)
    api = api or parsed[0][1]
    if connecting.stamps == "kernel":
        _refuse_without_kernel_stamps(endpoints + decoders)
    found = Target(
        topology=topology,
        endpoints=endpoints,
        style=RequestStyle("chat", model or ""),
        decode_endpoints=decoders,
        gpus=gpus,
        connecting=connecting,
        routes=routes or {},
        handoff=handoff,
        bootstrap_ports=tuple(bootstrap_ports),
    )
    asker = _Asker(headers, found)
    for endpoint in endpoints[1:] + decoders:
        asker.get(endpoint, "/models")
    model = model or _only_model(endpoints[0], asker)
    return replace(found, style=_find_style(model, api, asker))


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
        UsageError: If a class's prompt and output do not fit, or a class has no instance to go to.
    """
    classes = list(classes)
    for one in classes:
        target.route(one.name, 0)
    asker = _Asker(headers, target)
    for endpoint, limit in _longest_sequences(target, asker):
        for one in classes:
            tokens = one.prompt_tokens + one.output_tokens
            if tokens > limit:
                msg = (
                    f"{one.name}: a prompt of {one.prompt_tokens} and an output of "
                    f"{one.output_tokens} tokens; {endpoint.base_url} takes {limit} in all"
                )
                raise UsageError(msg)


def longest_sequence(target: Target, *, headers: Mapping[str, str]) -> int | None:
    """Return the longest sequence that all endpoints take, as far as they say; None where none does."""
    limits = _longest_sequences(target, _Asker(headers, target))
    return min((limit for _, limit in limits), default=None)


def _longest_sequences(target: Target, asker: _Asker) -> Iterator[tuple[Endpoint, int]]:
    """Yield the longest sequence of each endpoint that tells one for the model."""
    for endpoint in target.endpoints + target.decode_endpoints:
        for model in _listed(asker.get(endpoint, "/models")[1]):
            limit = model.get("max_model_len")
            if model.get("id") == target.style.model and isinstance(limit, int):
                yield endpoint, limit


def warm_up(target: Target, *, headers: Mapping[str, str], prompt_tokens: int = 256) -> None:
    """Have every instance serve one prompt that is in no record, so that none meets its first work.

    Raises:
        UsageError: If an instance does not answer.
    """
    asker = _Asker(headers, target)
    pairs = max(len(target.endpoints), len(target.decode_endpoints))
    for turn in range(pairs):
        # A prompt of its own each time: instances may share a cache.
        body = target.style.body(prompt_tokens, 8, uuid.uuid4().hex)
        status, answer = asker.complete(target.style, body, turn)
        if status != 200:
            first = target.endpoints[turn % len(target.endpoints)]
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


def _find_style(model: str, api: Api | None, asker: _Asker) -> RequestStyle:
    """Try the ways of writing a request, the most exact first, on the first instance."""
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
        status, answer = asker.complete(way, body)
        if status == 200:
            return way if way.prompt_ids else _measured(way, asker)
        refusal = refusal or f"HTTP {status}: {_message(answer)}"
        if status in (401, 403):
            break
    msg = f"URL: {asker.first.base_url} refuses requests for model {model!r} ({refusal})"
    raise UsageError(msg)


def _measured(way: RequestStyle, asker: _Asker) -> RequestStyle:
    """Return the style with the length of its texts, as the server counts them."""
    counted: list[int] = []
    for number in (_SHORT_WORDS, _LONG_WORDS):
        body = way.body(number, 1, uuid.uuid4().hex)
        _, answer = asker.complete(way, body)
        usage = answer.get("usage") if isinstance(answer, dict) else None
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not isinstance(tokens, int):
            msg = f"URL: {asker.first.base_url} tells no prompt length, so prompts cannot be sized"
            raise UsageError(msg)
        counted.append(tokens)
    per_word = (counted[1] - counted[0]) / (_LONG_WORDS - _SHORT_WORDS)
    if per_word <= 0:
        msg = f"URL: {asker.first.base_url} counts {counted} prompt tokens for 20 and 220 words"
        raise UsageError(msg)
    return replace(way, text_length=TextLength(counted[0] - per_word * _SHORT_WORDS, per_word))


class _Asker:
    """Asks a target's instances with the run's own headers and connections."""

    def __init__(self, headers: Mapping[str, str], target: Target) -> None:
        self._headers = headers
        self._target = target

    @property
    def first(self) -> Endpoint:
        """The first instance."""
        return self._target.endpoints[0]

    def get(self, endpoint: Endpoint, path: str) -> tuple[int, object]:
        """Return status and JSON document of a path below the base URL."""
        return self._exchange(endpoint, endpoint.below(path), None)

    def complete(
        self, way: RequestStyle, body: Mapping[str, object], turn: int = 0
    ) -> tuple[int, object]:
        """Send one request without streaming, through both legs when separated.

        Args:
            way: How the request is written.
            body: The request.
            turn: Which of the instances, of both kinds, are asked.
        """
        target = self._target
        number = turn % len(target.endpoints)
        endpoint, decoders = target.endpoints[number], target.decode_endpoints
        if not decoders:
            return self._exchange(endpoint, endpoint.path(way.api), _plain(body))
        decoder = decoders[turn % len(decoders)]
        if target.handoff == "sglang":
            return self._complete_together(endpoint, decoder, way, _plain(body), number)
        status, answer = self._exchange(endpoint, endpoint.path(way.api), prefill_body(body))
        if status != 200:
            return status, answer
        handed = decode_body(body, answer)
        if handed is None:
            msg = (
                f"URL: {endpoint.base_url} is no prefill instance: no kv_transfer_params came back"
            )
            raise UsageError(msg)
        return self._exchange(decoder, decoder.path(way.api), _plain(handed))

    def _complete_together(
        self,
        prefill: Endpoint,
        decode: Endpoint,
        way: RequestStyle,
        body: Mapping[str, object],
        number: int,
    ) -> tuple[int, object]:
        both = bootstrap_body(
            body,
            host=prefill.host,
            port=self._target.bootstrap_port(number),
            request_id=uuid.uuid4().hex,
        )
        asked = [Question(one, one.path(way.api), both) for one in (prefill, decode)]
        answers = self._ask(asked)
        refused = [one for one in answers if one is not None and one.status != 200]
        told = refused[0] if refused else answers[1]
        assert told is not None  # an answer is given up only where the other one is a refusal
        return told.status, _json(told)

    def _exchange(
        self, endpoint: Endpoint, path: str, body: Mapping[str, object] | None
    ) -> tuple[int, object]:
        (answer,) = self._ask([Question(endpoint, path, body)])
        assert answer is not None
        return answer.status, _json(answer)

    def _ask(self, questions: Sequence[Question]) -> list[Answer | None]:
        asked = " and ".join(_shown(question.endpoint) for question in questions)
        try:
            answers = ask_together(
                questions,
                headers=self._headers,
                connecting=self._target.connecting,
                timeout_s=_TIMEOUT_S,
            )
        except NoAnswerError as fault:
            msg = f"URL: nothing usable answers at {asked} ({fault})"
            raise UsageError(msg) from fault
        for question, answer in zip(questions, answers, strict=True):
            if answer is not None and 300 <= answer.status < 400:
                place = answer.headers.get("location")
                msg = f"URL: {question.endpoint.base_url} redirects to {place}; use that URL"
                raise UsageError(msg)
        return answers


def _shown(endpoint: Endpoint) -> str:
    through = "" if endpoint.proxy is None else f" through proxy {endpoint.proxy.authority}"
    return f"{endpoint.base_url}{through}"


def _plain(body: Mapping[str, object]) -> dict[str, object]:
    """Return a streamed request's body as one for a whole answer."""
    return {name: body[name] for name in body if name != "stream_options"} | {"stream": False}


def _json(answer: Answer) -> object:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        return None


def _listed(answer: object) -> list[dict[str, object]]:
    """Return the models of a `/models` answer."""
    listed = answer.get("data") if isinstance(answer, dict) else None
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _message(answer: object) -> str:
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message)[:200] if message else "no message"
