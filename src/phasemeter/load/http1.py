"""HTTP/1.1 on the wire: requests as bytes, responses through httptools (llhttp)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

import httptools

from phasemeter.core.errors import PhasemeterError


class HttpError(PhasemeterError):
    """The peer does not speak HTTP/1.1."""


class ResponseReceiver(Protocol):
    """Takes a response as it arrives."""

    def on_headers(self, t_ns: int, status: int, headers: Mapping[str, str]) -> None:
        """Take status and headers (lower-case names), complete at `t_ns`."""
        ...

    def on_body(self, t_ns: int, data: bytes) -> None:
        """Take body bytes, transfer coding undone, that arrived at `t_ns`."""
        ...


def json_bytes(body: Mapping[str, object]) -> bytes:
    """Return a body as it is sent."""
    return json.dumps(body, separators=(",", ":")).encode()


def request_bytes(
    target: str, host: str, content: bytes | None, headers: Mapping[str, str]
) -> bytes:
    """Return a POST request with a JSON body, or a GET request where there is none.

    Args:
        target: Path with query, or the whole URL for a proxy.
        host: Value of the Host header.
        content: The body, of `json_bytes`.
        headers: Further headers.
    """
    fields = {
        "Host": host,
        "Accept": "text/event-stream, application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "phasemeter",
    }
    if content is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    method = "GET" if content is None else "POST"
    head = "".join(f"{name}: {value}\r\n" for name, value in {**fields, **headers}.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (content or b"")


class ResponseReader:
    """Reads one response out of a connection's bytes.

    Attributes:
        started: At least one byte has come.
        complete: The response is whole.
        keeps_connection: The connection can carry another request after this whole response.
    """

    def __init__(self, receiver: ResponseReceiver) -> None:
        self.started = False
        self.complete = False
        self.keeps_connection = False
        self._receiver = receiver
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._headers_done = False
        self._t_ns = 0

    def feed(self, t_ns: int, data: bytes) -> None:
        """Take the bytes of one read.

        Raises:
            HttpError: If they are not HTTP/1.1.
        """
        parser = self._parser
        if parser is None:
            return
        self.started = True
        self._t_ns = t_ns
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as fault:
            if self.complete:
                self.keeps_connection = False  # what follows a whole response is not its fault
                return
            msg = f"not an HTTP/1.1 response: {type(fault).__name__}"
            raise HttpError(msg) from fault

    def end(self) -> None:
        """Read no more. The parser knows its reader: only without it a response is free at once."""
        self._parser = None

    def closed_cleanly(self) -> bool:
        """Tell whether a response is whole now that the peer has closed the connection.

        It is when its length was given by the close itself.
        """
        delimited = self._headers.get("transfer-encoding") or "content-length" in self._headers
        return self.complete or (self._headers_done and not delimited)

    # Callbacks of httptools. Nobody asked for what follows a whole response: it is passed over.

    def on_message_begin(self) -> None:  # noqa: D102
        if self.complete:
            self.keeps_connection = False

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: D102
        if self.complete:
            return
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:  # noqa: D102
        if self.complete or self._parser is None:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()
            return
        self._headers_done = True
        self._receiver.on_headers(self._t_ns, status, self._headers)

    def on_body(self, data: bytes) -> None:  # noqa: D102
        if not self.complete:
            self._receiver.on_body(self._t_ns, data)

    def on_message_complete(self) -> None:  # noqa: D102
        if self.complete or self._parser is None:
            return
        self.complete = self._headers_done
        # Only now: the parser forgets it once the message is complete.
        self.keeps_connection = self.complete and bool(self._parser.should_keep_alive())
