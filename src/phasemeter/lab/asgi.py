"""The few pieces of ASGI that the server needs: types, reading a body, sending an answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import cast

Scope = MutableMapping[str, object]
Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BODY_BYTES = 16 * 2**20


class ClientGoneError(Exception):
    """The client closed its connection."""


class ApiError(Exception):
    """A refusal to be told to the client.

    Args:
        message: What was wrong and what is accepted.
        status: HTTP status.
        param: Request field at fault.
        code: Short word for programs.
    """

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code

    def to_json(self) -> dict[str, dict[str, str | None]]:
        """Return the body, shaped as OpenAI's."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
        }


async def read_body(receive: Receive) -> bytes:
    """Return the whole request body.

    Raises:
        ClientGoneError: The connection was closed before the body's end.
        ApiError: The body is larger than `MAX_BODY_BYTES`.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += cast("bytes", message.get("body", b""))
        if len(body) > MAX_BODY_BYTES:
            msg = f"the body must have at most {MAX_BODY_BYTES} bytes"
            raise ApiError(msg, status=413)
        if not message.get("more_body", False):
            return bytes(body)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has closed its connection, or the answer is complete."""
    while (await receive())["type"] != "http.disconnect":
        pass


def request_header(scope: Scope, name: bytes) -> str | None:
    """Return a request header, whose `name` is given in lower case."""
    headers = cast("list[tuple[bytes, bytes]]", scope["headers"])
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


async def start_response(
    send: Send, status: int, content_type: str, headers: Mapping[str, str]
) -> None:
    """Send status and headers; they leave at once."""
    pairs = [(b"content-type", content_type.encode())]
    pairs += [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def send_part(send: Send, body: bytes, *, last: bool = False) -> None:
    """Send a part of the body; it leaves in one socket write."""
    await send({"type": "http.response.body", "body": body, "more_body": not last})


async def respond(
    send: Send,
    body: bytes,
    content_type: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send a whole answer."""
    length = {"content-length": str(len(body))}
    await start_response(send, status, content_type, length | dict(headers or {}))
    await send_part(send, body, last=True)


def to_json_bytes(value: object) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()
