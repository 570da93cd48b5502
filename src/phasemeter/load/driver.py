"""Drives one worker's share of a plan: one thread, one selector, absolute times.

Order of work in each turn: send what is due, read what is there, and only when nothing presses prepare
the bytes of requests to come. Kernel receive stamps make the measured arrival of a byte independent of
when this loop gets to it; responses are decoded after they have ended.
"""

from __future__ import annotations

import heapq
import select
import selectors
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from phasemeter.core.clock import NS_PER_MS, NS_PER_S, now_ns
from phasemeter.core.meter import StreamEnd
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.dialects import by_name
from phasemeter.load.connection import Connection
from phasemeter.load.exchange import Exchange, ExchangeOwner, error_name
from phasemeter.load.flight import Flight
from phasemeter.load.health import Health
from phasemeter.load.http1 import json_bytes
from phasemeter.load.plan import Plan, PlannedRequest, UserFlow, share_of
from phasemeter.load.pool import ConnectionPool
from phasemeter.load.prepare import Preparer, Written
from phasemeter.load.target import Endpoint, Target

_TICK_NS = 50 * NS_PER_MS
_LOOK_AHEAD_NS = 2 * NS_PER_S
_TIME_TO_SPARE_NS = NS_PER_MS
_PAUSE_AFTER_FAILURE_NS = 100 * NS_PER_MS
_DIGEST_READS = 50  # about 0.3 ms
_MOST_TO_DIGEST = 256


@dataclass(slots=True)
class Counts:
    """What a driver has done so far."""

    issued: int = 0
    ok: int = 0
    failed: int = 0
    in_flight: int = 0
    reads: int = 0
    token_events: int = 0


@dataclass(slots=True)
class _Due:
    """A start that waits for its time: an arrival of the plan, or a user's next request."""

    intended_ns: int
    planned: PlannedRequest
    user: _User | None
    written: Written | None = None


class _User:
    """One closed-loop user, with the next request ready while the current one runs."""

    def __init__(self, flow: UserFlow, number: int, seed: int) -> None:
        self.flow = flow
        self.first_offset_ns = flow.first_offset_ns(number)
        self._requests = flow.requests_of(number, seed)
        self.upcoming = self._next()

    def take(self, intended_ns: int) -> _Due:
        due, self.upcoming = self.upcoming, self._next()
        due.intended_ns = intended_ns
        return due

    def _next(self) -> _Due:
        return _Due(0, next(self._requests), self)


class Driver:
    """Runs a share of a plan against a target.

    Attributes:
        counts: Running totals, for progress.
        health: How late the driver itself was.
    """

    def __init__(
        self,
        plan: Plan,
        target: Target,
        *,
        worker: int,
        workers: int,
        salt: str,
        headers: Mapping[str, str],
        timeout_s: float,
        on_issued: Callable[[Flight], None],
        on_finished: Callable[[Timeline], None],
    ) -> None:
        self.counts = Counts()
        self.health = Health()
        self._add_read_lag = self.health.read_lag.add
        self._plan = plan
        self._target = target
        self._worker, self._workers = worker, workers
        self._preparer = Preparer(target, salt=salt, headers=headers, first=worker, step=workers)
        self._timeout_ns = round(timeout_s * NS_PER_S)
        self._on_issued, self._on_finished = on_issued, on_finished
        self._dialect = by_name(f"openai.{target.style.api}")
        self._selector = selectors.DefaultSelector()
        self._pool = ConnectionPool(target.connecting)
        self._due: list[tuple[int, int, _Due]] = []
        self._due_number = 0
        self._to_prepare: deque[_Due] = deque()
        self._flights: dict[Flight, _User | None] = {}
        self._to_digest: deque[Flight] = deque()
        self._left: dict[str, int | None] = {}
        self._arrivals: Iterator[PlannedRequest] = iter(())
        self._next_arrival: PlannedRequest | None = None
        self._t0_ns = 0

    def run(self, t0_ns: int, should_stop: Callable[[], bool]) -> bool:
        """Run the share from `t0_ns` (the plan's origin) to its end.

        Args:
            t0_ns: Monotonic time that the plan's offsets count from.
            should_stop: Asked at least every 50 ms; True cancels what is in flight.

        Returns:
            True when the plan was carried out, False when it was stopped.

        Raises:
            OSError: If a host name cannot be resolved.
        """
        self._t0_ns = t0_ns
        self._pool.resolve((*self._target.endpoints, *self._target.decode_endpoints))
        self._arrivals = self._plan.arrivals(self._worker, self._workers)
        self._start_users()
        drain_ns = self._at(self._plan.duration_s + self._plan.drain_s)
        next_tick_ns = 0
        stopped = False
        try:
            while True:
                t_ns = now_ns()
                if t_ns >= next_tick_ns:
                    if next_tick_ns:
                        self.health.wake_lag.add(t_ns - next_tick_ns)
                    self.health.fold_some()
                    next_tick_ns = t_ns + _TICK_NS
                    stopped = should_stop()
                    self._time_out(t_ns)
                    self._look_ahead(t_ns)
                if stopped or t_ns >= drain_ns or self._is_finished():
                    break
                self._start_due()
                self._poll(next_tick_ns)
        finally:
            self._cancel_all()
            self._pool.close()
            self._selector.close()
        return not stopped

    def _at(self, offset_s: float) -> int:
        return self._t0_ns + round(offset_s * NS_PER_S)

    def _is_finished(self) -> bool:
        return not (self._due or self._flights or self._next_arrival or self._to_digest)

    def _start_users(self) -> None:
        for flow in self._plan.flows:
            if isinstance(flow, UserFlow):
                # Only workers that have users of the flow can take a share of its requests.
                sharers = min(self._workers, flow.users)
                self._left[flow.name] = share_of(flow.max_requests, self._worker, sharers)
        for flow, number in self._plan.users(self._worker, self._workers):
            user = _User(flow, number, self._plan.seed)
            self._push_next(user, self._t0_ns + user.first_offset_ns)

    def _look_ahead(self, t_ns: int) -> None:
        """Take the arrivals of the next seconds out of the plan, to have their bytes ready."""
        while True:
            if self._next_arrival is None:
                self._next_arrival = next(self._arrivals, None)
            planned = self._next_arrival
            if planned is None:
                return
            intended_ns = self._t0_ns + (planned.offset_ns or 0)
            if intended_ns > t_ns + _LOOK_AHEAD_NS:
                return
            self._next_arrival = None
            self._push(_Due(intended_ns, planned, None))

    def _push(self, due: _Due) -> None:
        self._due_number += 1
        heapq.heappush(self._due, (due.intended_ns, self._due_number, due))
        self._to_prepare.append(due)

    def _push_next(self, user: _User, intended_ns: int) -> None:
        """Plan a user's next request, if its flow still has one."""
        left = self._left[user.flow.name]
        if left == 0 or intended_ns >= self._at(user.flow.stop_s):
            return
        if left is not None:
            self._left[user.flow.name] = left - 1
        self._push(user.take(intended_ns))
        self._to_prepare.append(user.upcoming)

    def _start_due(self) -> None:
        t_ns = (
            now_ns()
        )  # what falls due meanwhile waits for the next turn, so that reads get theirs
        while self._due and self._due[0][0] <= t_ns:
            self._start(heapq.heappop(self._due)[2])

    def _start(self, due: _Due) -> None:
        written = due.written or self._preparer.write(due.planned)
        flight = Flight(
            self._preparer.address(written),
            dialect=self._dialect,
            model=self._target.style.model,
            intended_ns=due.intended_ns,
            open_exchange=self._open,
            landed=self._landed,
        )
        self._flights[flight] = due.user
        self.counts.issued += 1
        self.health.send_lag.add(flight.started_ns - due.intended_ns)
        flight.start()
        self._on_issued(flight)

    def _poll(self, next_tick_ns: int) -> None:
        due_ns = self._due[0][0] if self._due else next_tick_ns
        wait_ns = min(due_ns, next_tick_ns) - now_ns()
        overdue = len(self._to_digest) > _MOST_TO_DIGEST
        if overdue or (wait_ns > _TIME_TO_SPARE_NS and self._has_spare_work()):
            ready = self._selector.select(0)
            if overdue or not ready:
                self._do_spare_work()
        else:
            whole_ms = wait_ns // NS_PER_MS if due_ns <= next_tick_ns else wait_ns // NS_PER_MS + 1
            if whole_ms <= 0 < wait_ns:
                self._wait_less_than_a_millisecond(wait_ns)
            ready = self._selector.select(max(0, whole_ms) / 1_000)
        if ready:
            self._work_off(ready)

    def _wait_less_than_a_millisecond(self, wait_ns: int) -> None:
        """Wait for what comes or for the next start, whichever is first.

        The selector rounds up to whole milliseconds, which would send requests late; `select` on the
        selector's own descriptor counts in microseconds. Where it has none this returns at once.
        """
        if hasattr(self._selector, "fileno"):
            select.select((self._selector,), (), (), wait_ns / NS_PER_S)

    def _has_spare_work(self) -> bool:
        return bool(self._to_prepare or self._to_digest)

    def _do_spare_work(self) -> None:
        """Do a small piece of what has time: requests to come first, ended responses next."""
        if self._to_prepare and len(self._to_digest) <= _MOST_TO_DIGEST:
            due = self._to_prepare.popleft()
            due.written = due.written or self._preparer.write(due.planned)
        else:
            self._digest_some()

    def _work_off(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        begun_ns = now_ns()
        for key, events in ready:
            if key.data is None:
                self._drop_if_idle(key)
            else:
                self._serve(key.data, events)
            if self._due:
                self._start_due()  # a start does not wait for the reads of this turn
        self.health.loop_lag.add(now_ns() - begun_ns)

    def _serve(self, exchange: Exchange, events: int) -> None:
        if exchange.done:
            return
        if events & selectors.EVENT_READ:
            exchange.on_readable()
            lag_ns = exchange.connection.arrivals.read_lag_ns
            if lag_ns is not None:
                self._add_read_lag(lag_ns)
        if events & selectors.EVENT_WRITE and not exchange.done:
            exchange.advance()
        if not exchange.done:
            self._watch(exchange)

    def _watch(self, exchange: Exchange) -> None:
        connection = exchange.connection
        events = selectors.EVENT_READ
        if connection.wants_write:
            events |= selectors.EVENT_WRITE
        if exchange.watched_events == events:
            return
        exchange.watched_events = events
        if connection in self._selector.get_map():
            self._selector.modify(connection, events, exchange)
        else:
            self._selector.register(connection, events, exchange)

    def _drop_if_idle(self, key: selectors.SelectorKey) -> None:
        """Close an idle connection that became readable: its peer has closed it."""
        if self._selector.get_map().get(key.fd) != key:
            return  # earlier in this turn it was closed, or taken for a request
        connection: Connection = key.fileobj  # type: ignore[assignment]
        self._pool.forget(connection)
        self._close(connection)

    def _close(self, connection: Connection) -> None:
        fd = connection.fileno()
        if fd >= 0 and fd in self._selector.get_map():
            self._selector.unregister(fd)
        connection.close()

    def _open(
        self,
        flight: Flight,
        endpoint: Endpoint,
        request: Mapping[str, object] | bytes,
        owner: ExchangeOwner,
    ) -> None:
        """Start an exchange of a flight."""
        if not isinstance(request, bytes):
            request = self._preparer.to_bytes(
                endpoint, json_bytes(request), flight.prepared.request_id
            )
        self._send(flight, endpoint, request, owner, fresh=False)

    def _send(
        self,
        flight: Flight,
        endpoint: Endpoint,
        request: bytes,
        owner: ExchangeOwner,
        *,
        fresh: bool,
    ) -> None:
        try:
            connection = self._pool.take(endpoint, fresh=fresh)
        except OSError as fault:
            owner.on_end(now_ns(), StreamEnd.LOST, error_name(fault))
            return

        def released(exchange: Exchange) -> None:
            self.counts.reads += exchange.reads
            if exchange.reusable:
                self._selector.modify(connection, selectors.EVENT_READ, None)
                self._pool.give_back(endpoint, connection)
            else:
                self._close(connection)

        def retry() -> None:
            self._send(flight, endpoint, request, owner, fresh=True)

        reused = connection.used
        exchange = Exchange(connection, request, owner, released, retry if reused else None)
        flight.exchanges[owner] = exchange
        if reused:
            exchange.advance()
        if not exchange.done:
            self._watch(exchange)

    def _landed(self, flight: Flight) -> None:
        self._to_digest.append(flight)
        user = self._flights.pop(flight)
        if user is not None:
            # A server that refuses at once would else be asked thousands of times a second.
            pause_ns = _PAUSE_AFTER_FAILURE_NS if flight.is_failure else 0
            self._push_next(user, flight.ended_ns + pause_ns)

    def _digest_some(self) -> None:
        flight = self._to_digest[0]
        timeline = flight.digest(_DIGEST_READS)
        if timeline is None:
            return
        self._to_digest.popleft()
        self.health.parse_lag.add(max(now_ns() - flight.ended_ns, 0))
        if timeline.outcome is Outcome.OK:
            self.counts.ok += 1
        else:
            self.counts.failed += 1
        self.counts.token_events += len(timeline.events)
        self._on_finished(timeline)

    def _time_out(self, t_ns: int) -> None:
        self.counts.in_flight = len(self._flights)
        late = [f for f in self._flights if t_ns - f.started_ns > self._timeout_ns]
        for flight in late:
            flight.cancel(StreamEnd.TIMED_OUT)

    def _cancel_all(self) -> None:
        self._left = dict.fromkeys(self._left, 0)
        for flight in list(self._flights):
            flight.cancel(StreamEnd.CLOSED)
        while self._to_digest:
            self._digest_some()
        self.counts.in_flight = len(self._flights)
