"""HTTP/1.1 requests cut out of a connection's bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass

_MAX_BYTES = 16 * 2**20


class BadRequestError(Exception):
    """The bytes are no request that this server reads."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        method: GET, POST, ...
        path: Target without its query.
        headers: Names in lower case; of a repeated header the last value.
        body: Body, transfer coding undone.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json_body(self) -> dict[str, object]:
        """Return the body's JSON object.

        Raises:
            BadRequestError: If it is none.
        """
        try:
            document = json.loads(self.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            msg = "the body must be a JSON object"
            raise BadRequestError(msg)
        return document


def take_request(buffer: bytearray) -> Request | None:
    """Remove the first whole request from the buffer and return it; None while it is incomplete.

    Raises:
        BadRequestError: If the bytes are no HTTP request, or too many.
    """
    head_end = buffer.find(b"\r\n\r\n")
    if len(buffer) > _MAX_BYTES:
        msg = f"a request has at most {_MAX_BYTES} bytes"
        raise BadRequestError(msg)
    if head_end < 0:
        return None
    lines = buffer[:head_end].decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3:
        msg = "the first line must be METHOD TARGET VERSION"
        raise BadRequestError(msg)
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    body_end = _body(buffer, head_end + 4, headers)
    if body_end is None:
        return None
    body, end = body_end
    del buffer[:end]
    return Request(words[0], words[1].partition("?")[0], headers, body)


def _body(buffer: bytearray, start: int, headers: dict[str, str]) -> tuple[bytes, int] | None:
    """Return the body and where it ends, or None while it is incomplete."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _chunked_body(buffer, start)
    try:
        end = start + int(headers.get("content-length", "0"))
    except ValueError:
        msg = "content-length must be a number"
        raise BadRequestError(msg) from None
    return (bytes(buffer[start:end]), end) if len(buffer) >= end else None


def _chunked_body(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    parts: list[bytes] = []
    while True:
        line_end = buffer.find(b"\r\n", start)
        if line_end < 0:
            return None
        try:
            size = int(buffer[start:line_end].partition(b";")[0], 16)
        except ValueError:
            msg = "a chunk must start with its size"
            raise BadRequestError(msg) from None
        end = line_end + 2 + size
        if len(buffer) < end + 2:
            return None
        if not size:
            return b"".join(parts), end + 2
        parts.append(bytes(buffer[line_end + 2 : end]))
        start = end + 2
