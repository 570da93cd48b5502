"""One generation over HTTP: from a checked call to the last byte of its answer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from phasemeter.lab.answers import DONE_EVENT, AnswerFormat, Json
from phasemeter.lab.asgi import (
    ApiError,
    ClientGoneError,
    respond,
    send_part,
    start_response,
    to_json_bytes,
    wait_for_disconnect,
)
from phasemeter.lab.request import Failed, Output, Request, TokenOut
from phasemeter.lab.truth import RequestTruth

if TYPE_CHECKING:
    from collections.abc import Callable

    from phasemeter.lab.asgi import Receive, Send
    from phasemeter.lab.config import Role
    from phasemeter.lab.engine import Engine
    from phasemeter.lab.protocol import Call
    from phasemeter.lab.truth import Outcome


class Generation:
    """Runs one call through the engine and writes its answer.

    Args:
        call: What was asked.
        request_id: The client's name for it, or a generated one.
        received_ns: Request body complete: arrived, not yet read.
        engine: Computes the tokens.
        address: Host and port told to a decode instance, for the record.
        on_token: Told the gap before each token, None for the first.
        on_end: Told what happened, however it ended.
    """

    def __init__(
        self,
        call: Call,
        *,
        request_id: str,
        received_ns: int,
        engine: Engine,
        address: tuple[str, int],
        on_token: Callable[[int | None], None],
        on_end: Callable[[RequestTruth], None],
    ) -> None:
        self._call = call
        self._engine = engine
        self._address = address
        self._on_token = on_token
        self._on_end = on_end
        self._outputs: asyncio.Queue[Output] = asyncio.Queue()
        self._emit_ns: list[int] = []
        self._latest_token_ns: int | None = None
        self._headers = {"x-request-id": request_id}
        self.request = Request(
            request_id=request_id,
            prompt=call.prompt,
            sampling=call.sampling,
            deliver=self._outputs.put_nowait,
            received_ns=received_ns,
            holds_kv=call.holds_kv,
            remote=call.remote,
        )
        self._format = AnswerFormat(call, self.request, engine.config.served_model_name)

    async def run(self, receive: Receive, send: Send) -> None:
        """Submit the request and write its answer, or the error that prevented it."""
        outcome: Outcome = "cancelled"
        watcher = asyncio.create_task(self._cancel_on_disconnect(receive))
        self._engine.submit(self.request)
        try:
            await (self._stream(send) if self._call.stream else self._answer(send))
            outcome = "ok"
        except ClientGoneError:
            pass
        except ApiError as error:
            outcome = "error"
            await respond_error(send, error, self._headers)
        finally:
            watcher.cancel()
            self._engine.cancel(self.request)  # when this task is cancelled; else it has ended
            finished_ns = time.monotonic_ns()
            role = self._role()
            self._on_end(RequestTruth(self.request, self._emit_ns, finished_ns, outcome, role))

    def _role(self) -> Role:
        """Return the engine's role, or the leg that this request was for an elastic engine."""
        if self._engine.elastic is None:
            return self._engine.config.role
        if self._call.holds_kv:
            return "prefill"
        return "decode" if self._call.remote else "both"

    async def _cancel_on_disconnect(self, receive: Receive) -> None:
        await wait_for_disconnect(receive)
        self._engine.cancel(self.request)

    async def _stream(self, send: Send) -> None:
        # Headers leave before the first token, as with vLLM; a pull may still fail, so it may
        # still need another status.
        output = await self._next() if self._call.remote else None
        headers = self._headers | {"cache-control": "no-cache"}
        await start_response(send, 200, "text/event-stream; charset=utf-8", headers)
        if output is None:
            output = await self._next()
        if self._call.chat:
            await send_part(send, self._format.role_event())
        await self._emit(send, output, is_first=True)
        while output.finish_reason is None:
            output = await self._next()
            await self._emit(send, output, is_first=False)
        if self._call.include_usage:
            await send_part(send, self._format.usage_event())
        await send_part(send, DONE_EVENT, last=True)

    async def _emit(self, send: Send, output: TokenOut, *, is_first: bool) -> None:
        event = self._format.token_event(output, is_first=is_first)
        # hot: nothing may come between the stamp and the write.
        self._emit_ns.append(time.monotonic_ns())
        await send_part(send, event)

    async def _answer(self, send: Send) -> None:
        output = await self._next()
        while output.finish_reason is None:
            output = await self._next()
        transfer = self._transfer_params() if self._call.holds_kv else None
        body = self._format.whole(output.finish_reason, transfer)
        await respond(send, body, "application/json", headers=self._headers)

    async def _next(self) -> TokenOut:
        output = await self._outputs.get()
        if isinstance(output, Failed):
            if output.message is None:
                raise ClientGoneError
            raise ApiError(output.message, status=500, code="kv_pull_failed")
        now_ns = self.request.last_token_ns or 0
        self._on_token(None if self._latest_token_ns is None else now_ns - self._latest_token_ns)
        self._latest_token_ns = now_ns
        return output

    def _transfer_params(self) -> Json:
        """Return what the decode instance needs, in the form of vLLM's NIXL connector."""
        published = self._engine.published
        host, port = self._address
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_engine_id": published.engine_id if published else None,
            "remote_block_ids": [self.request.slot],
            "remote_request_id": self.request.internal_id,
            "remote_host": host,
            "remote_port": port,
            "tp_size": 1,
            "remote_num_tokens": len(self.request.prompt),
        }


async def respond_error(send: Send, error: ApiError, headers: dict[str, str]) -> None:
    """Send a refusal."""
    body = to_json_bytes(error.to_json())
    await respond(send, body, "application/json", status=error.status, headers=headers)
