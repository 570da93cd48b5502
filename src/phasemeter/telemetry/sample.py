"""One look at a server's metrics page, and its line in `server.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from phasemeter.telemetry.signals import COUNTERS, GAUGES, Signal

Moment = Literal["start", "during", "end"]
Role = Literal["both", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class ServerSample:
    """What an instance told at a moment of a condition.

    Attributes:
        t_ns: When the page was asked for, on the clock of the records.
        arm: Name of the topology.
        condition: What was done to it.
        repeat: Which repetition.
        moment: Before the condition, during it, or after its last request.
        role: What the instance does in its topology.
        instance: Number of the instance within its role.
        users: Number of concurrent users where the condition is run with several, else None.
        flavour: Whose metrics these are; None where the page could not be had or understood.
        values: Signals that the page told.
        reason: Why there are none, else None.
    """

    t_ns: int
    arm: str
    condition: str
    repeat: int
    moment: Moment
    role: Role
    instance: int
    users: int | None = None
    flavour: str | None = None
    values: Mapping[Signal, float] = field(default_factory=dict)
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the sample as a JSON-ready line; what is unknown is left out."""
        document = {name: getattr(self, name) for name in self.__slots__}
        document["values"] = dict(self.values)
        return {name: value for name, value in document.items() if value not in (None, {})}


def parse_sample(document: Mapping[str, object]) -> ServerSample:
    """Return the sample of a decoded line.

    Raises:
        KeyError, TypeError, ValueError: If the line is not one.
    """
    moments: dict[object, Moment] = {one: one for one in get_args(Moment)}
    roles: dict[object, Role] = {one: one for one in get_args(Role)}
    told = document.get("values", {})
    users, flavour, reason = (document.get(name) for name in ("users", "flavour", "reason"))
    if not isinstance(told, dict):
        msg = f"expected values by signal, got {type(told).__name__}"
        raise TypeError(msg)
    known = (*COUNTERS, *GAUGES)
    return ServerSample(
        t_ns=int(str(document["t_ns"])),
        arm=str(document["arm"]),
        condition=str(document["condition"]),
        repeat=int(str(document["repeat"])),
        moment=moments[document["moment"]],
        role=roles[document["role"]],
        instance=int(str(document["instance"])),
        users=None if users is None else int(str(users)),
        flavour=None if flavour is None else str(flavour),
        values={name: float(told[name]) for name in known if name in told},
        reason=None if reason is None else str(reason),
    )
