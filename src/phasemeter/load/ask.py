"""One question to a server, over the same connections as the load: what works here works in the run."""

from __future__ import annotations

import selectors
from collections.abc import Mapping
from dataclasses import dataclass

from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.core.coding import BrokenCodingError, UnsupportedCodingError, decoder_for
from phasemeter.core.errors import PhasemeterError
from phasemeter.core.meter import StreamEnd
from phasemeter.load.connecting import Connecting
from phasemeter.load.exchange import Exchange
from phasemeter.load.pool import ConnectionPool
from phasemeter.load.prepare import request_to
from phasemeter.load.target import Endpoint


class NoAnswerError(PhasemeterError):
    """No usable HTTP response came; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP response.

    Attributes:
        status: HTTP status.
        headers: Headers by their names in lower case.
        body: Body, content coding undone.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(
    endpoint: Endpoint,
    path: str,
    body: Mapping[str, object] | None,
    *,
    headers: Mapping[str, str],
    connecting: Connecting,
    timeout_s: float,
) -> Answer:
    """Send one request and wait for the whole answer.

    Args:
        endpoint: Where to.
        path: Path with query.
        body: JSON body of a POST; None for a GET.
        headers: Extra headers.
        connecting: How the connection is made.
        timeout_s: Time limit, connecting included.

    Raises:
        NoAnswerError: If no whole HTTP response came.
    """
    pool = ConnectionPool(connecting)
    taker = _Taker()
    try:
        request = request_to(endpoint, path, body, headers)
        pool.resolve([endpoint])
        connection = pool.take(endpoint)
    except (OSError, UnicodeError) as fault:
        raise NoAnswerError(_reason(fault)) from fault
    finally:
        pool.close()
    exchange = Exchange(connection, request, taker, lambda exchange: exchange.connection.close())
    deadline_ns = now_ns() + round(timeout_s * NS_PER_S)
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while not exchange.done:
            left_ns = deadline_ns - now_ns()
            if left_ns <= 0:
                exchange.finish(now_ns(), StreamEnd.TIMED_OUT, f"nothing within {timeout_s:g} s")
                break
            for _, events in selector.select(left_ns / NS_PER_S):
                if events & selectors.EVENT_READ:
                    exchange.on_readable()
                if events & selectors.EVENT_WRITE and not exchange.done:
                    exchange.advance()
            if not exchange.done:
                writes = selectors.EVENT_WRITE if connection.wants_write else 0
                selector.modify(connection, selectors.EVENT_READ | writes)
    if taker.end is not StreamEnd.EOF or taker.status is None:
        raise NoAnswerError(_reason(exchange.fault) if exchange.fault else taker.error_type)
    return Answer(taker.status, taker.headers, _plain(taker))


class _Taker:
    """Keeps what the exchange brings."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.body = bytearray()
        self.end: StreamEnd | None = None
        self.error_type: str | None = None

    def on_connected(self, t_ns: int) -> None: ...

    def on_sent(self, t_ns: int) -> None: ...

    def on_headers(self, t_ns: int, status: int, headers: Mapping[str, str]) -> None:
        del t_ns
        self.status, self.headers = status, dict(headers)

    def on_body(self, t_ns: int, data: bytes) -> None:
        del t_ns
        self.body += data

    def on_end(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        del t_ns
        self.end, self.error_type = end, error_type


def _plain(taker: _Taker) -> bytes:
    try:
        decode = decoder_for(taker.headers.get("content-encoding", ""))
        return bytes(taker.body) if decode is None else decode(bytes(taker.body))
    except (UnsupportedCodingError, BrokenCodingError) as fault:
        msg = f"its body has a content coding that cannot be undone ({fault})"
        raise NoAnswerError(msg) from fault


def _reason(fault: Exception) -> str:
    return getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
