"""A driver run in this process against a scripted server, and what it wrote down."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phasemeter.core.clock import now_ns
from phasemeter.core.timeline import Timeline
from phasemeter.load.driver import Driver
from phasemeter.load.plan import Flow, Plan, TimedFlow
from phasemeter.load.target import RequestStyle, Target, parse_endpoint
from phasemeter.load.workload import RequestClass

ONE = RequestClass("one", prompt_tokens=8, output_tokens=4)


class Drive:
    """Runs flows against a URL and keeps the timelines and the driver."""

    def __init__(self) -> None:
        self.timelines: list[Timeline] = []
        self.issued: list[str] = []
        self.driver: Driver | None = None
        self.finished: bool | None = None

    def __call__(
        self,
        url: str,
        *flows: Flow,
        duration_s: float = 0.5,
        drain_s: float = 10.0,
        timeout_s: float = 30.0,
        target: Target | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> list[Timeline]:
        if target is None:
            endpoint, _ = parse_endpoint(url)
            target = Target("single", (endpoint,), RequestStyle("chat", "m"))
        plan = Plan(flows or (at_once(1),), duration_s, drain_s, seed=1)
        self.driver = Driver(
            plan,
            target,
            worker=0,
            workers=1,
            salt="salt",
            headers={"X-Test": "yes"},
            timeout_s=timeout_s,
            on_issued=lambda flight: self.issued.append(flight.prepared.request_id),
            on_finished=self.timelines.append,
        )
        self.finished = self.driver.run(now_ns(), should_stop)
        return self.timelines


def at_once(number: int, request_class: RequestClass = ONE, spacing_s: float = 0.0) -> TimedFlow:
    """So many requests from the start on."""
    at = tuple((index * spacing_s, request_class) for index in range(number))
    return TimedFlow("timed", at)


@pytest.fixture
def drive() -> Drive:
    return Drive()
