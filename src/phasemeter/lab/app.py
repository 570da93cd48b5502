"""The HTTP surface: an ASGI application over one engine."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, cast

from phasemeter.lab.asgi import (
    ApiError,
    ClientGoneError,
    read_body,
    request_header,
    respond,
    to_json_bytes,
)
from phasemeter.lab.generation import Generation, respond_error
from phasemeter.lab.protocol import parse_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from phasemeter.lab.asgi import Receive, Scope, Send
    from phasemeter.lab.engine import Engine
    from phasemeter.lab.exposition import EngineMetrics
    from phasemeter.lab.listener import Peer
    from phasemeter.lab.truth import RequestTruth, TruthLog

_CHAT_PATHS = {"/v1/completions": False, "/v1/chat/completions": True}
_JSON = "application/json"
_JSON_LINES = "application/x-ndjson"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class App:
    """Routes requests to the engine.

    Args:
        engine: Computes tokens.
        metrics: Counts for `/metrics`.
        truth: Records for `/truth` and `/steps`.
        arrivals_ns: When the last bytes read from a peer had arrived, by its (address, port).
        on_submit: Called when a request has come in, so that the engine's loop wakes up.
    """

    def __init__(
        self,
        engine: Engine,
        metrics: EngineMetrics,
        truth: TruthLog,
        *,
        arrivals_ns: Mapping[Peer, int],
        on_submit: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._metrics = metrics
        self._truth = truth
        self._arrivals_ns = arrivals_ns
        self._on_submit = on_submit
        self._pages: dict[str, Callable[[], tuple[bytes, str]]] = {
            "/health": lambda: (b"", "text/plain"),
            "/v1/models": lambda: (self._models(), _JSON),
            "/metrics": lambda: (metrics.page(), _PROMETHEUS),
            "/truth": lambda: (truth.request_lines().encode(), _JSON_LINES),
            "/steps": lambda: (truth.step_lines().encode(), _JSON_LINES),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request_id = request_header(scope, b"x-request-id") or uuid.uuid4().hex
        headers = {"x-request-id": request_id}
        try:
            await self._route(scope, receive, send, headers)
        except ApiError as error:
            await respond_error(send, error, headers)
        except ClientGoneError:
            pass

    async def _route(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]
    ) -> None:
        path, method = str(scope["path"]), str(scope["method"])
        if path in self._pages:
            _require_method(method, "GET")
            body, content_type = self._pages[path]()
            await respond(send, body, content_type, headers=headers)
        elif path in _CHAT_PATHS:
            _require_method(method, "POST")
            await self._generate(scope, receive, send, headers["x-request-id"])
        else:
            msg = f"no such path {path!r}"
            raise ApiError(msg, status=404, code="not_found")

    async def _generate(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        body = await read_body(receive)
        peer = cast("Peer", tuple(cast("Sequence[str | int]", scope["client"])[:2]))
        received_ns = self._arrivals_ns.get(peer) or time.monotonic_ns()
        call = parse_call(body, chat=_CHAT_PATHS[str(scope["path"])], config=self._engine.config)
        generation = Generation(
            call,
            request_id=request_id,
            received_ns=received_ns,
            engine=self._engine,
            address=cast("tuple[str, int]", scope["server"]),
            on_token=self._metrics.count_token,
            on_end=self._record,
        )
        self._on_submit()
        await generation.run(receive, send)

    def _record(self, truth: RequestTruth) -> None:
        self._truth.add_request(truth)
        self._metrics.count_request(truth)

    def _models(self) -> bytes:
        config = self._engine.config
        model = {
            "id": config.served_model_name,
            "object": "model",
            "owned_by": "phasemeter-lab",
            "max_model_len": config.max_model_len,
        }
        return to_json_bytes({"object": "list", "data": [model]})


def _require_method(method: str, accepted: str) -> None:
    if method != accepted:
        msg = f"the method must be {accepted}, got {method}"
        raise ApiError(msg, status=405, code="method_not_allowed")
