"""Questions to a server, over the same connections as the load: what works here works in the run."""

from __future__ import annotations

import selectors
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasemeter.core.clock import NS_PER_S, now_ns
from phasemeter.core.coding import BrokenCodingError, UnsupportedCodingError, decoder_for
from phasemeter.core.errors import PhasemeterError
from phasemeter.core.meter import StreamEnd
from phasemeter.load.connecting import Connecting
from phasemeter.load.exchange import Exchange
from phasemeter.load.http1 import json_bytes
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
        connect_ns: Time to connect, TLS included; None where it is not known.
        wait_ns: From the request sent to the headers complete; None where it is not known.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    connect_ns: int | None = None
    wait_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One request.

    Attributes:
        endpoint: Where to.
        path: Path with query.
        body: JSON body of a POST; None for a GET.
    """

    endpoint: Endpoint
    path: str
    body: Mapping[str, object] | None = None


def ask(
    question: Question, *, headers: Mapping[str, str], connecting: Connecting, timeout_s: float
) -> Answer:
    """Send one request and wait for the whole answer.

    Args:
        question: The request.
        headers: Extra headers.
        connecting: How the connection is made.
        timeout_s: Time limit, connecting included.

    Raises:
        NoAnswerError: If no whole HTTP response came.
    """
    (answer,) = ask_together(
        [question], headers=headers, connecting=connecting, timeout_s=timeout_s
    )
    assert answer is not None
    return answer


def ask_together(
    questions: Sequence[Question],
    *,
    headers: Mapping[str, str],
    connecting: Connecting,
    timeout_s: float,
) -> list[Answer | None]:
    """Send requests at the same time and wait for the whole answers.

    Where one is refused (a status from 300 on) the others are given up, since their servers may be
    waiting for it: their answers are None.

    Args:
        questions: The requests.
        headers: Extra headers.
        connecting: How connections are made.
        timeout_s: Time limit, connecting included.

    Raises:
        NoAnswerError: If to one of them no whole HTTP response came; the others are given up.
    """
    pool = ConnectionPool(connecting)
    exchanges: list[Exchange] = []
    try:
        pool.resolve([question.endpoint for question in questions])
        takers = [_Taker() for _ in questions]
        for question, taker in zip(questions, takers, strict=True):
            content = None if question.body is None else json_bytes(question.body)
            request = request_to(question.endpoint, question.path, content, headers)
            connection = pool.take(question.endpoint)
            exchanges.append(Exchange(connection, request, taker, _closed))
    except (OSError, UnicodeError) as fault:
        for exchange in exchanges:
            exchange.connection.close()
        raise NoAnswerError(_reason(fault)) from fault
    finally:
        pool.close()
    _carry_out(exchanges, takers, timeout_s)
    answers: list[Answer | None] = []
    for exchange, taker in zip(exchanges, takers, strict=True):
        if taker.end is StreamEnd.CLOSED:
            answers.append(None)
        elif taker.end is not StreamEnd.EOF or taker.status is None:
            raise NoAnswerError(_reason(exchange.fault) if exchange.fault else taker.error_type)
        else:
            answers.append(
                Answer(taker.status, taker.headers, _plain(taker), taker.connect_ns, taker.wait_ns)
            )
    return answers


def _closed(exchange: Exchange) -> None:
    exchange.connection.close()


def _carry_out(exchanges: Sequence[Exchange], takers: Sequence[_Taker], timeout_s: float) -> None:
    """Work until every exchange has ended, one has failed, or time is up."""
    deadline_ns = now_ns() + round(timeout_s * NS_PER_S)
    with selectors.DefaultSelector() as selector:
        for exchange in exchanges:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            selector.register(exchange.connection, both, exchange)
        while not all(exchange.done for exchange in exchanges):
            left_ns = deadline_ns - now_ns()
            if left_ns <= 0 or any(taker.failed for taker in takers):
                break
            for key, events in selector.select(left_ns / NS_PER_S):
                _serve(selector, key.data, events)
    failed = any(taker.failed for taker in takers)
    for exchange in exchanges:
        if failed:
            exchange.finish(now_ns(), StreamEnd.CLOSED, None)
        else:
            exchange.finish(now_ns(), StreamEnd.TIMED_OUT, f"nothing within {timeout_s:g} s")


def _serve(selector: selectors.BaseSelector, exchange: Exchange, events: int) -> None:
    connection = exchange.connection
    fd = connection.fileno()
    if events & selectors.EVENT_READ:
        exchange.on_readable()
    if events & selectors.EVENT_WRITE and not exchange.done:
        exchange.advance()
    if exchange.done:
        selector.unregister(fd)
    else:
        writes = selectors.EVENT_WRITE if connection.wants_write else 0
        selector.modify(fd, selectors.EVENT_READ | writes, exchange)


class _Taker:
    """Keeps what the exchange brings."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.body = bytearray()
        self.end: StreamEnd | None = None
        self.error_type: str | None = None
        self.connect_ns: int | None = None
        self.wait_ns: int | None = None
        self._started_ns = now_ns()
        self._sent_ns: int | None = None

    @property
    def failed(self) -> bool:
        """True once it has ended without an answer that is one."""
        return self.end is not None and (self.end is not StreamEnd.EOF or (self.status or 0) >= 300)

    def on_connected(self, t_ns: int) -> None:
        self.connect_ns = t_ns - self._started_ns

    def on_sent(self, t_ns: int) -> None:
        self._sent_ns = t_ns

    def on_headers(self, t_ns: int, status: int, headers: Mapping[str, str]) -> None:
        self.wait_ns = None if self._sent_ns is None else t_ns - self._sent_ns
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
