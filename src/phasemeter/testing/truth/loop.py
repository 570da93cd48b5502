"""The truth server's loop: one thread, one epoll, a heap of times.

`epoll.poll` counts in whole milliseconds, so the loop waits in `select` on the epoll descriptor itself,
which takes microseconds.
"""

from __future__ import annotations

import ctypes
import heapq
import os
import select
import socket
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random

from phasemeter.core.clock import NS_PER_MS, NS_PER_S, PROCESS_ANCHOR, now_ns
from phasemeter.core.errors import UsageError
from phasemeter.testing.truth.answers import (
    Api,
    Asked,
    EventWriter,
    error_answer,
    json_answer,
    read_asked,
    whole_answer,
)
from phasemeter.testing.truth.connection import Connection
from phasemeter.testing.truth.http_requests import BadRequestError, Request
from phasemeter.testing.truth.log import RequestTruth, TruthLog
from phasemeter.testing.truth.pacing import Pacing, parse_pacing, writes
from phasemeter.testing.truth.prefix_cache import PrefixCache
from phasemeter.testing.truth.stream import Stream

PACING_HEADER = "x-truth-pacing"
_APIS: dict[str, Api] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/generate": "generate",
}
_LONGEST_WAIT_NS = 200 * NS_PER_MS
_TIME_TO_SPARE_NS = 2 * NS_PER_MS
_PR_SET_TIMERSLACK = 29


class TruthServer:
    """Serves until told to stop.

    Args:
        listener: Listening socket.
        pacing: Pacing of answers whose request carries no `X-Truth-Pacing` header.
        model: Name listed by `/v1/models`; any name is served.
        log: Where the truth goes.
        seed: Of the spreads.
    """

    def __init__(
        self, listener: socket.socket, pacing: Pacing, *, model: str, log: TruthLog, seed: int = 1
    ) -> None:
        self._listener = listener
        self._pacing = pacing
        self._model = model
        self._log = log
        self._random = Random(seed)
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._due: list[tuple[int, int, Callable[[], int | None]]] = []
        self._numbers = 0
        self._cache = PrefixCache()
        self._being_answered = 0
        self._waiting: deque[Callable[[int], None]] = deque()
        listener.settimeout(0)
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Serve until `should_stop`, asked about five times a second, says so."""
        _have_precise_timers()
        next_check_ns = 0
        while True:
            t_ns = now_ns()
            if t_ns >= next_check_ns:
                if should_stop():
                    break
                next_check_ns = t_ns + _LONGEST_WAIT_NS
            self._do_due(t_ns)
            self._wait(next_check_ns)
        for connection in self._connections.values():
            connection.close()
        self._epoll.close()

    def _do_due(self, t_ns: int) -> None:
        due = self._due
        while due and due[0][0] <= t_ns:
            _, number, step = heapq.heappop(due)
            next_ns = step()
            if next_ns is not None:
                heapq.heappush(due, (next_ns, number, step))

    def _wait(self, until_ns: int) -> None:
        """Wait for a socket or the next time; write the log while there is plenty of it."""
        until_ns = min(until_ns, self._due[0][0]) if self._due else until_ns
        while until_ns - now_ns() > _TIME_TO_SPARE_NS and self._log.write_one():
            pass
        left_ns = max(until_ns - now_ns(), 0)
        ready, _, _ = select.select([self._epoll], [], [], left_ns / NS_PER_S)
        if ready:
            for descriptor, events in self._epoll.poll(0):
                self._serve(descriptor, events)

    def _serve(self, descriptor: int, events: int) -> None:
        connection = self._connections.get(descriptor)
        if connection is None:
            self._accept()
            return
        connection.flush()
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            connection.read()
        self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """Answer what has come, or forget a closed connection."""
        if connection.open:
            self._answer_next(connection)
        if not connection.open and self._connections.get(connection.descriptor) is connection:
            del self._connections[connection.descriptor]

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            connection = Connection(plain)
            self._connections[connection.descriptor] = connection
            # Edge-triggered, so that a write that the kernel did not take needs no further call.
            self._epoll.register(
                connection.descriptor, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET
            )

    def _answer_next(self, connection: Connection) -> None:
        try:
            request = connection.next_request()
            if request is not None:
                connection.busy = True
                connection.closes = request.headers.get("connection", "").lower() == "close"
                self._answer(connection, request)
        except (BadRequestError, UsageError) as fault:
            connection.closes = True
            self._finish(connection, error_answer(400, str(fault)))

    def _answer(self, connection: Connection, request: Request) -> None:
        api = _APIS.get(request.path)
        if api is not None and request.method == "POST":
            self._generate(connection, request, api)
        elif request.path == "/v1/models":
            model = {"id": self._model, "object": "model", "created": 0, "owned_by": "truth"}
            self._finish(connection, json_answer(200, {"object": "list", "data": [model]}))
        elif request.path in ("/flush_cache", "/reset_prefix_cache") and request.method == "POST":
            self._cache.clear()
            self._finish(connection, json_answer(200, {"status": "ok"}))
        elif request.path in ("/", "/health", "/ping"):
            self._finish(connection, json_answer(200, {"status": "ok"}))
        else:
            self._finish(connection, error_answer(404, f"{request.method} {request.path}: none"))

    def _generate(self, connection: Connection, request: Request, api: Api) -> None:
        pacing = parse_pacing(request.headers.get(PACING_HEADER, ""), self._pacing)
        document = request.json_body()
        asked = read_asked(api, document, pacing.tokens)
        cached = self._cache.take(document) if pacing.prefix_cache else 0
        if pacing.tells_cached:
            asked = replace(asked, cached_tokens=cached)
        prefill_ms = pacing.prompt_token_ms * max(asked.prompt_tokens - cached, 0)
        pacing = replace(pacing, ttft_ms=pacing.ttft_ms + prefill_ms)
        truth = RequestTruth(
            request_id=request.headers.get("x-request-id"),
            path=request.path,
            stream=asked.stream,
            received_ns=connection.received_ns,
            prompt_tokens=asked.prompt_tokens,
            cached_tokens=cached,
        )

        def begin(admitted_ns: int) -> None:
            truth.admitted_ns = admitted_ns
            self._begin(connection, asked, pacing, truth)

        if pacing.slots and self._being_answered >= pacing.slots:
            self._waiting.append(begin)
        else:
            begin(connection.received_ns)

    def _begin(
        self, connection: Connection, asked: Asked, pacing: Pacing, truth: RequestTruth
    ) -> None:
        self._being_answered += 1
        self._numbers += 1
        created_s = PROCESS_ANCHOR.unix_ns_at(truth.received_ns) // NS_PER_S
        response_id = f"truth-{self._numbers}"
        if asked.stream:
            writer = EventWriter(asked, response_id, created_s)
            stream = Stream(
                connection, asked, pacing, writer, truth, self._stream_ended, self._random
            )
            self._at(stream.first_due_ns, stream.advance)
            return
        events = -(-asked.tokens // pacing.tokens_per_event)
        *_, (last_ns, _) = writes(pacing, events, self._random)

        def answer_whole() -> None:
            truth.headers_ns, truth.tokens = now_ns(), asked.tokens
            self._answered(truth)
            self._finish(connection, whole_answer(asked, response_id, created_s))

        self._at(truth.admitted_ns + last_ns, answer_whole)

    def _answered(self, truth: RequestTruth) -> None:
        """Log a request that has ended, and begin with the one that waits longest."""
        self._log.add(truth)
        self._being_answered -= 1
        if self._waiting:
            self._waiting.popleft()(now_ns())

    def _at(self, t_ns: int, step: Callable[[], int | None]) -> None:
        self._numbers += 1  # equal times keep the order of arrival
        heapq.heappush(self._due, (t_ns, self._numbers, step))

    def _stream_ended(self, stream: Stream) -> None:
        self._answered(stream.truth)
        self._finish(stream.connection, b"")

    def _finish(self, connection: Connection, answer: bytes) -> None:
        """Send a last piece, and turn to the next request of the connection."""
        if answer:
            connection.send(answer)
        connection.busy = False
        if connection.closes:
            connection.finish()
        self._go_on(connection)


def _have_precise_timers() -> None:
    """Let the kernel wake this thread on time; by default it may be 50 us late to save power."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def parent_watch() -> Callable[[], bool]:
    """Return a function that tells whether the process that started this one is gone."""
    parent = os.getppid()
    return lambda: os.getppid() != parent
