"""The plan of a run: flows of requests whose every arrival follows from the plan and the seed.

Worker w of n takes the arrivals (or users) whose index is w modulo n out of the same seeded plan, so
workers need no coordination. Offsets are absolute from the run's start: a late request keeps its
intended time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from heapq import merge
from itertools import count, islice
from random import Random

from phasemeter.core.clock import NS_PER_S
from phasemeter.load.arrivals import ArrivalProcess, offsets_ns
from phasemeter.load.workload import RequestClass, class_at, draw_class

_GOLDEN = (5**0.5 - 1) / 2
"""Its multiples fill [0, 1) more evenly than those of any other step (Weyl; Knuth, TAOCP 3, 6.4)."""


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request of the plan.

    Attributes:
        key: Identifies the request within the plan; the same for every run of the plan.
        request_class: What to ask for.
        tags: Labels of its record.
        offset_ns: Intended start from the run's start; None in a closed loop, where the user's
            previous answer decides.
    """

    key: str
    request_class: RequestClass
    tags: Mapping[str, str]
    offset_ns: int | None = None


@dataclass(frozen=True, slots=True)
class UserFlow:
    """Closed loop: each user sends the next request when the answer to the last one has ended.

    Attributes:
        name: Unique within the plan; part of the seed.
        mix: Classes that requests are drawn from.
        users: Number of users.
        start_s: When the users start, from the run's start.
        stop_s: No request is started from then on.
        spread_s: Users start evenly over this time rather than all at once.
        max_requests: At most so many requests over all users, or None.
        in_turn: A user asks for the classes one after the other instead of drawing them.
        tags: Labels of the records.
        even_mix: A user's classes follow each other evenly, instead of each being drawn by itself, so
            that a short stretch has nearly the shares of the mix: for throughput, which would
            otherwise vary with what happened to be drawn.
    """

    name: str
    mix: tuple[RequestClass, ...]
    users: int
    start_s: float
    stop_s: float
    spread_s: float = 0.0
    max_requests: int | None = None
    in_turn: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    even_mix: bool = False

    def requests_of(self, user: int, seed: int) -> Iterator[PlannedRequest]:
        """Yield the requests of one user, without end."""
        first = Random(f"{seed}/{self.name}-u{user}").random()
        for index in count():
            key = f"{self.name}-u{user}-{index}"
            if self.in_turn:
                drawn = self.mix[index % len(self.mix)]
            elif self.even_mix:
                drawn = class_at(self.mix, (first + index * _GOLDEN) % 1)
            else:
                drawn = draw_class(self.mix, Random(f"{seed}/{key}"))
            yield PlannedRequest(key, drawn, self.tags)

    def first_offset_ns(self, user: int) -> int:
        """Return when a user starts."""
        return round((self.start_s + self.spread_s * user / self.users) * NS_PER_S)


@dataclass(frozen=True, slots=True)
class ArrivalFlow:
    """Open loop: requests arrive when the plan says, whatever the server does.

    Attributes:
        name: Unique within the plan; part of the seed.
        mix: Classes that requests are drawn from.
        rate_per_s: Mean arrivals per second.
        process: Arrival process.
        start_s: First possible arrival, from the run's start.
        stop_s: No arrival from then on.
        max_requests: At most so many requests, or None.
        tags: Labels of the records.
    """

    name: str
    mix: tuple[RequestClass, ...]
    rate_per_s: float
    process: ArrivalProcess
    start_s: float
    stop_s: float
    max_requests: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def requests(self, seed: int) -> Iterator[PlannedRequest]:
        """Yield all requests of the flow in order of their offsets."""
        for index, offset_ns in enumerate(self.offsets_ns(seed)):
            key = f"{self.name}-{index}"
            drawn = draw_class(self.mix, Random(f"{seed}/{key}"))
            yield PlannedRequest(key, drawn, self.tags, offset_ns)

    def offsets_ns(self, seed: int) -> Iterator[int]:
        """Yield when each request arrives, from the run's start."""
        start_ns, stop_ns = round(self.start_s * NS_PER_S), round(self.stop_s * NS_PER_S)
        rng = Random(f"{seed}/{self.name}/arrivals")
        offsets = offsets_ns(self.process, self.rate_per_s, rng, start_ns, stop_ns)
        return islice(offsets, self.max_requests)


@dataclass(frozen=True, slots=True)
class TimedFlow:
    """Requests at given times, each of a given class.

    Attributes:
        name: Unique within the plan.
        at: (seconds from the run's start, class) of each request, in order.
        tags: Labels of the records.
    """

    name: str
    at: tuple[tuple[float, RequestClass], ...]
    tags: Mapping[str, str] = field(default_factory=dict)

    def requests(self, seed: int) -> Iterator[PlannedRequest]:
        """Yield all requests of the flow in order."""
        del seed  # nothing is drawn
        for index, (offset_s, request_class) in enumerate(self.at):
            offset_ns = round(offset_s * NS_PER_S)
            yield PlannedRequest(f"{self.name}-{index}", request_class, self.tags, offset_ns)


Flow = UserFlow | ArrivalFlow | TimedFlow


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run of the driver sends.

    Attributes:
        flows: The flows of requests; names differ.
        duration_s: When the last flow stops.
        drain_s: How long to wait for answers after that before they are cancelled.
        seed: Source of everything drawn.
    """

    flows: tuple[Flow, ...]
    duration_s: float
    drain_s: float
    seed: int

    def arrivals(self, worker: int, workers: int) -> Iterator[PlannedRequest]:
        """Yield the open-loop requests of one worker's share, by offset."""
        shares = [
            islice(flow.requests(self.seed), worker, None, workers)
            for flow in self.flows
            if not isinstance(flow, UserFlow)
        ]
        return merge(*shares, key=lambda request: request.offset_ns or 0)

    def users(self, worker: int, workers: int) -> list[tuple[UserFlow, int]]:
        """Return (flow, user) for each closed-loop user of one worker's share."""
        return [
            (flow, user)
            for flow in self.flows
            if isinstance(flow, UserFlow)
            for user in range(worker, flow.users, workers)
        ]

    def classes(self) -> set[RequestClass]:
        """Return every class that the plan may ask for."""
        found: set[RequestClass] = set()
        for flow in self.flows:
            found |= {one for _, one in flow.at} if isinstance(flow, TimedFlow) else set(flow.mix)
        return found

    def as_document(self) -> dict[str, object]:
        """Return the plan as JSON-ready values, for the run's manifest."""
        kinds = {UserFlow: "users", ArrivalFlow: "arrivals", TimedFlow: "timed"}
        return {
            "flows": [{"kind": kinds[type(flow)], **asdict(flow)} for flow in self.flows],
            "duration_s": self.duration_s,
            "drain_s": self.drain_s,
            "seed": self.seed,
        }


def planned_arrivals_ns(document: Mapping[str, object]) -> list[int]:
    """Return when the open-loop requests of a plan arrive, from its `as_document`.

    Empty where the plan has none, or is no plan that can be read.
    """
    flows = document.get("flows")
    arrivals: list[int] = []
    try:
        for flow in flows if isinstance(flows, list) else ():
            if flow["kind"] == "arrivals":
                named = {name: value for name, value in flow.items() if name != "kind"}
                arrivals += ArrivalFlow(**named).offsets_ns(int(str(document["seed"])))
    except (KeyError, TypeError, ValueError):
        return []
    return sorted(arrivals)


def share_of(total: int | None, worker: int, workers: int) -> int | None:
    """Return how many of `total` requests fall to one worker; None where there is no limit."""
    if total is None:
        return None
    return total // workers + (worker < total % workers)
