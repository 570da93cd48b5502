"""One request in flight: its meter, and the one or two exchanges that it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Protocol

from phasemeter.core.clock import now_ns
from phasemeter.core.decoding import Dialect
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.timeline import Leg, Timeline
from phasemeter.load.exchange import Exchange, ExchangeOwner
from phasemeter.load.handoff import decode_body
from phasemeter.load.prepare import Prepared
from phasemeter.load.target import Endpoint


class OpenExchange(Protocol):
    """Starts an exchange of a flight and sets the flight's `exchange`."""

    def __call__(  # noqa: D102
        self,
        flight: Flight,
        endpoint: Endpoint,
        request: Mapping[str, object] | bytes,
        owner: ExchangeOwner,
    ) -> None: ...


class Flight:
    """Runs a prepared request to its end; then `digest` makes a Timeline of it.

    Attributes:
        prepared: The request.
        intended_ns: When the plan wanted it sent.
        started_ns: Just before it was issued.
        exchanges: The exchanges under way, by what takes their answer.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        dialect: Dialect,
        model: str,
        intended_ns: int,
        open_exchange: OpenExchange,
        landed: Callable[[Flight], None],
    ) -> None:
        self.prepared = prepared
        self.intended_ns = intended_ns
        self.exchanges: dict[ExchangeOwner, Exchange] = {}
        self._open = open_exchange
        self._landed = landed
        self._status: int | None = None
        self._end: tuple[int, StreamEnd, str | None] | None = None
        self.started_ns = now_ns()
        tags, wanted = prepared.planned.tags, prepared.planned.request_class
        self._meter = StreamMeter(
            dialect,
            request_id=prepared.request_id,
            model=model,
            started_ns=self.started_ns,
            intended_ns=intended_ns,
            stamp_source="recv",
            tags={
                **tags,
                "class": wanted.name,
                "prompt_tokens": str(wanted.prompt_tokens),
                "instance": str(prepared.instance),
            },
        )

    @property
    def tags(self) -> Mapping[str, str]:
        """Labels of the record."""
        return self._meter.tags

    @property
    def ended_ns(self) -> int:
        """End of the landed flight's response."""
        assert self._end is not None
        return self._end[0]

    @property
    def is_failure(self) -> bool:
        """True for a landed flight that got no whole response, or one that is no answer."""
        lost = self._end is not None and self._end[1] is not StreamEnd.EOF
        return lost or (self._status is not None and self._status >= 300)

    def start(self) -> None:
        """Send the first exchange, and the second where they go together."""
        prepared = self.prepared
        if prepared.decode is None:
            self._open(self, prepared.first, prepared.first_bytes, _Stream(self))
        elif prepared.decode_bytes is None:
            self._open(self, prepared.first, prepared.first_bytes, _PrefillLeg(self))
        else:
            prefill = _PrefillBeside(self)
            self._open(self, prepared.first, prepared.first_bytes, prefill)
            if self._end is None:  # else the prefill leg could not even be begun
                stream = _DecodeLeg(self)
                self._open(self, prepared.decode, prepared.decode_bytes, stream)

    def cancel(self, end: StreamEnd) -> None:
        """Stop the request; its record keeps what was measured so far."""
        t_ns = now_ns()
        for exchange in list(self.exchanges.values()):
            exchange.finish(t_ns, end, None)

    def digest(self, most_reads: int) -> Timeline | None:
        """Decode a part of what the landed flight has brought; its timeline when that was the last."""
        assert self._end is not None
        return self._meter.finish(*self._end) if self._meter.digest(most_reads) else None

    def _take_back(self, owner: ExchangeOwner) -> None:
        """An exchange has ended; its connection says how the times were taken."""
        exchange = self.exchanges.pop(owner, None)
        if exchange is not None:
            connection = exchange.connection
            self._meter.clock_stepped |= connection.clock_stepped
            if self._end is None:  # not of one that is given up: the stream's count
                self._meter.stamp_source = connection.stamp_source

    def _land(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        """The request has ended; what is still under way for it is given up."""
        if self._end is not None:
            return
        self._end = (t_ns, end, error_type)
        for exchange in list(self.exchanges.values()):
            exchange.finish(t_ns, StreamEnd.CLOSED, None)
        self._meter.legs.sort(key=lambda leg: leg.role, reverse=True)  # prefill first
        self._landed(self)


class _LegTimes:
    """The instants of one leg as they come."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.connected_ns: int | None = None
        self.sent_ns: int | None = None
        self.headers_ns: int | None = None

    def ended(self, t_ns: int | None) -> Leg:
        return Leg(self.role, self.sent_ns, self.headers_ns, t_ns, self.connected_ns)


class _Stream:
    """The exchange of a request that needs one only; its answer is the stream."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._meter = flight._meter
        self.on_body = self._meter.on_read

    def on_connected(self, t_ns: int) -> None:
        self._meter.connected_ns = t_ns

    def on_sent(self, t_ns: int) -> None:
        # A request that is sent again on a new connection counts from then; see `Exchange`.
        self._meter.sent_ns = t_ns

    def on_headers(self, t_ns: int, status: int, headers: Mapping[str, str]) -> None:
        self._flight._status = status
        self._meter.on_headers(t_ns, status, headers)

    def on_end(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        self._flight._take_back(self)
        self._flight._land(t_ns, end, error_type)


class _DecodeLeg(_Stream):
    """The exchange whose answer is the stream, where another one has the prompt prefilled."""

    def __init__(self, flight: Flight) -> None:
        super().__init__(flight)
        self._leg = _LegTimes("decode")

    def on_connected(self, t_ns: int) -> None:
        self._leg.connected_ns = t_ns

    def on_sent(self, t_ns: int) -> None:
        self._leg.sent_ns = t_ns

    def on_headers(self, t_ns: int, status: int, headers: Mapping[str, str]) -> None:
        self._leg.headers_ns = t_ns
        super().on_headers(t_ns, status, headers)

    def on_end(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        self._meter.legs.append(self._leg.ended(t_ns))
        super().on_end(t_ns, end, error_type)


class _PrefillLeg:
    """The exchange that has the prompt prefilled; its answer says where the KV cache lies."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._meter = flight._meter
        self._leg = _LegTimes("prefill")
        self._status: int | None = None
        self._headers: Mapping[str, str] = {}
        self._body = bytearray()

    def on_connected(self, t_ns: int) -> None:
        self._leg.connected_ns = t_ns
        self._meter.connected_ns = t_ns

    def on_sent(self, t_ns: int) -> None:
        self._leg.sent_ns = t_ns
        self._meter.sent_ns = t_ns

    def on_headers(self, t_ns: int, status: int, headers: Mapping[str, str]) -> None:
        self._leg.headers_ns = t_ns
        self._status = status
        self._headers = dict(headers)

    def on_body(self, t_ns: int, data: bytes) -> None:
        del t_ns  # the prefill leg has no token of the answer
        self._body += data

    def on_end(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        flight = self._flight
        flight._take_back(self)
        self._meter.legs.append(self._leg.ended(t_ns))
        if end is not StreamEnd.EOF or self._status != 200:
            self._fail(t_ns, end, error_type)
            return
        decode, body = flight.prepared.decode, self._handed_over()
        if body is None or decode is None:
            flight._land(t_ns, StreamEnd.LOST, "no_handoff")
            return
        flight._open(flight, decode, body, _DecodeLeg(flight))

    def _fail(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        """End the request as the prefill leg ended: its answer is the request's."""
        if self._status is not None:
            self._flight._status = self._status
            self._meter.on_headers(self._leg.headers_ns or t_ns, self._status, self._headers)
            self._meter.on_read(t_ns, bytes(self._body))
        self._flight._land(t_ns, end, error_type)

    def _handed_over(self) -> Mapping[str, object] | None:
        try:
            answer = json.loads(self._body)
        except ValueError:
            return None
        return decode_body(self._flight.prepared.body, answer)


class _PrefillBeside(_PrefillLeg):
    """The prefill leg that runs beside the decode leg; only its end and its failure matter."""

    def on_body(self, t_ns: int, data: bytes) -> None:
        if self._status != 200:  # what it answers otherwise is thrown away
            super().on_body(t_ns, data)

    def on_end(self, t_ns: int, end: StreamEnd, error_type: str | None) -> None:
        flight = self._flight
        flight._take_back(self)
        given_up = flight._end is not None
        self._meter.legs.append(self._leg.ended(None if given_up else t_ns))
        if given_up or (end is StreamEnd.EOF and self._status == 200):
            return
        if not self._meter.has_body:
            self._fail(t_ns, end, error_type)
        elif end is StreamEnd.EOF:  # the stream has begun: it ends here
            flight._land(t_ns, StreamEnd.LOST, "prefill_failed")
        else:
            flight._land(t_ns, end, error_type)
