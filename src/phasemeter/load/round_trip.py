"""The way to a server and back, measured apart from what its engine does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phasemeter.core.clock import NS_PER_MS
from phasemeter.load.ask import Question, ask
from phasemeter.load.target import Target

_TIMES = 7
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Least times over a few questions that need no engine.

    Attributes:
        connect_ms: To connect: one round trip, with TLS two or three, to the proxy where there is one.
        round_trip_ms: From a request sent to the headers of its answer, `GET .../models`.
    """

    connect_ms: float | None
    round_trip_ms: float | None


def measure_round_trip(target: Target, *, headers: Mapping[str, str]) -> RoundTrip:
    """Ask the first endpoint a few times, each on a connection of its own.

    Raises:
        NoAnswerError: If no HTTP response comes.
    """
    endpoint = target.endpoints[0]
    answers = [
        ask(
            Question(endpoint, endpoint.below("/models")),
            headers=headers,
            connecting=target.connecting,
            timeout_s=_TIMEOUT_S,
        )
        for _ in range(_TIMES)
    ]
    connects = [one.connect_ns for one in answers if one.connect_ns is not None]
    waits = [one.wait_ns for one in answers if one.wait_ns is not None]
    return RoundTrip(
        connect_ms=min(connects) / NS_PER_MS if connects else None,
        round_trip_ms=min(waits) / NS_PER_MS if waits else None,
    )
