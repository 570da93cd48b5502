"""Planned requests made ready to send: prompt, body, endpoint, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phasemeter.load.handoff import bootstrap_body, prefill_body
from phasemeter.load.http1 import json_bytes, request_bytes
from phasemeter.load.plan import PlannedRequest
from phasemeter.load.target import Endpoint, Target


@dataclass(frozen=True, slots=True)
class Written:
    """A request that is written out but for where it goes.

    Attributes:
        planned: The request of the plan.
        request_id: Unique within the run.
        body: Body of the streamed request; kept where a leg is made from it later, empty otherwise.
        content: Body of the first exchange as it is sent; None where it names the instance.
    """

    planned: PlannedRequest
    request_id: str
    body: Mapping[str, object]
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request whose bytes are ready.

    Attributes:
        planned: The request of the plan.
        request_id: Unique within the run.
        body: Body of the streamed request; kept for a decode leg that is made from the prefill
            leg's answer, empty otherwise.
        first: Where the first exchange goes.
        first_bytes: Its bytes.
        decode: Where the decode leg goes, or None for a request of one exchange.
        instance: Number of the endpoint that the answer streams from, within its topology.
        decode_bytes: Bytes of a decode leg that is sent together with the prefill leg, else None.
    """

    planned: PlannedRequest
    request_id: str
    body: Mapping[str, object]
    first: Endpoint
    first_bytes: bytes
    decode: Endpoint | None
    instance: int
    decode_bytes: bytes | None = None


class Preparer:
    """Prepares requests; the n-th that is sent goes to the n-th endpoint (of its class), in turn.

    What takes time is done ahead. Whose turn it is, is decided as a request is sent: requests are written
    out in another order, and by that order all users would be at the same endpoint at a time.

    Args:
        target: Where requests go.
        salt: Unique to the run; it starts each request's identifier, from which its prompt is drawn.
        headers: Extra headers of each request.
        first: Number of the first request.
        step: Distance of the numbers, so that workers share the turns of one round.
    """

    def __init__(
        self, target: Target, *, salt: str, headers: Mapping[str, str], first: int, step: int
    ) -> None:
        self._target = target
        self._salt = salt
        self._headers = headers
        self._first, self._step = first, step
        self._numbers: dict[str, int] = {}

    def write(self, planned: PlannedRequest) -> Written:
        """Write a request out; takes about 1 us for each token of the prompt."""
        target, wanted = self._target, planned.request_class
        request_id = f"{self._salt}-{planned.key}"
        body = target.style.body(wanted.prompt_tokens, wanted.output_tokens, request_id)
        if not target.decode_endpoints:
            return Written(planned, request_id, {}, json_bytes(body))
        if target.handoff == "vllm":
            return Written(planned, request_id, body, json_bytes(prefill_body(body)))
        return Written(planned, request_id, body, None)

    def address(self, written: Written) -> Prepared:
        """Give a request that is sent now its endpoints, and return it with its bytes."""
        target, planned, request_id = self._target, written.planned, written.request_id
        wanted = planned.request_class
        # Classes with endpoints of their own take turns by themselves.
        turns_of = wanted.name if target.routes else ""
        number = self._numbers.get(turns_of, self._first)
        self._numbers[turns_of] = number + self._step
        instance = target.route(wanted.name, number)
        first = target.endpoints[instance]
        content = written.content
        if not target.decode_endpoints:
            assert content is not None  # a request of one exchange does not name its instance
            first_bytes = self.to_bytes(first, content, request_id)
            return Prepared(planned, request_id, {}, first, first_bytes, None, instance)
        turn = number % len(target.decode_endpoints)
        decode = target.decode_endpoints[turn]
        if content is not None:
            first_bytes = self.to_bytes(first, content, request_id)
            return Prepared(planned, request_id, written.body, first, first_bytes, decode, turn)
        port = target.bootstrap_port(instance)
        both = json_bytes(
            bootstrap_body(written.body, host=first.host, port=port, request_id=request_id)
        )
        return Prepared(
            planned=planned,
            request_id=request_id,
            body={},
            first=first,
            first_bytes=self.to_bytes(first, both, request_id),
            decode=decode,
            instance=turn,
            decode_bytes=self.to_bytes(decode, both, request_id),
        )

    def to_bytes(self, endpoint: Endpoint, content: bytes, request_id: str) -> bytes:
        """Return the bytes of a POST to an endpoint."""
        path = endpoint.path(self._target.style.api)
        return request_to(endpoint, path, content, {**self._headers, "X-Request-Id": request_id})


def request_to(
    endpoint: Endpoint,
    path: str,
    content: bytes | None,
    headers: Mapping[str, str],
) -> bytes:
    """Return the bytes of a request to an endpoint, as its proxy wants them where it has one.

    Args:
        endpoint: Where to.
        path: Path with query.
        content: JSON body of a POST; None for a GET.
        headers: Extra headers.
    """
    target, proxy = path, endpoint.proxy
    if proxy is not None and endpoint.scheme == "http":
        target = f"http://{endpoint.host_header}{path}"
        headers = {**proxy.headers, **headers}
    return request_bytes(target, endpoint.host_header, content, headers)
