"""One streamed answer on its way: the next write, its stamp, and the faults."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from phasemeter.core.clock import NS_PER_MS, now_ns
from phasemeter.testing.truth.answers import Asked, EventWriter, stream_head
from phasemeter.testing.truth.connection import Connection
from phasemeter.testing.truth.log import Outcome, RequestTruth
from phasemeter.testing.truth.pacing import Pacing, writes


class Stream:
    """Sends one answer; the server calls `advance` at each time that it returned.

    Attributes:
        truth: What has been done so far.
    """

    def __init__(
        self,
        connection: Connection,
        asked: Asked,
        pacing: Pacing,
        writer: EventWriter,
        truth: RequestTruth,
        on_end: Callable[[Stream], None],
        random: Random,
    ) -> None:
        self.connection = connection
        self.truth = truth
        self._asked = asked
        self._pacing = pacing
        self._writer = writer
        self._on_end = on_end
        events = -(-asked.tokens // pacing.tokens_per_event)
        self._writes = writes(pacing, events, random)
        self._events_sent = 0
        self._next = next(self._writes)
        self._headers_due_ns = truth.admitted_ns + round(pacing.headers_ms * NS_PER_MS)

    @property
    def first_due_ns(self) -> int:
        """When `advance` is first to be called."""
        return self._headers_due_ns

    def advance(self) -> int | None:
        """Do what is due; return when it is to be called again, or None at the end."""
        if not self.connection.open:
            self._end("gone")
            return None
        if self.truth.headers_ns is None:
            self.truth.headers_ns = now_ns()
            self.connection.send(stream_head())
        else:
            self._write()
            if self._pacing.reset_after and self._events_sent >= self._pacing.reset_after:
                self.connection.reset()
                self._end("reset")
                return None
            following = next(self._writes, None)
            if following is None:
                self.connection.send(self._writer.tail())
                self._end(self._outcome())
                return None
            self._next = following
        return max(self._headers_due_ns, self.truth.admitted_ns + self._next[0])

    def _write(self) -> None:
        planned_ns = self.truth.admitted_ns + self._next[0]
        emit_ns = now_ns() if self._pacing.stamped else None
        data = self._events(self._next[1], emit_ns)
        before_ns = now_ns() if emit_ns is None else emit_ns
        whole = self.connection.send(data)  # hot: the stamp is taken just before, nothing between
        self.truth.emit_ns += [before_ns] * self._next[1]
        self.truth.planned_ns += [planned_ns] * self._next[1]
        self.truth.blocked_writes += not whole

    def _events(self, number: int, emit_ns: int | None) -> bytes:
        if number == 1:
            return self._event(emit_ns)
        return b"".join([self._event(emit_ns) for _ in range(number)])

    def _event(self, emit_ns: int | None) -> bytes:
        first = self.truth.tokens
        tokens = min(self._pacing.tokens_per_event, self._asked.tokens - first)
        self._events_sent += 1
        self.truth.tokens = first + tokens
        return self._writer.token_event(first, tokens, emit_ns)

    def _outcome(self) -> Outcome:
        return "ok" if self.connection.open else "gone"

    def _end(self, outcome: Outcome) -> None:
        self.truth.outcome = outcome
        self._on_end(self)
