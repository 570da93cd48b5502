"""The metrics pages of a target's instances, over the same connections as the load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from phasemeter.load.ask import NoAnswerError, Question, ask
from phasemeter.load.connecting import Connecting
from phasemeter.load.target import Endpoint, Target
from phasemeter.telemetry.sample import Role
from phasemeter.telemetry.watch import Instance, NoPageError

_TIMEOUT_S = 2.0


def instances_of(target: Target, headers: Mapping[str, str]) -> list[Instance]:
    """Return the instances of a target, each with a way to its metrics page."""

    def fetch(endpoint: Endpoint) -> Callable[[], str]:
        return partial(_fetch, endpoint, headers, target.connecting)

    role: Role = "prefill" if target.decode_endpoints else "both"
    return [
        *(Instance(role, number, fetch(one)) for number, one in enumerate(target.endpoints)),
        *(
            Instance("decode", number, fetch(one))
            for number, one in enumerate(target.decode_endpoints)
        ),
    ]


def metrics_path(endpoint: Endpoint) -> str:
    """Return where an engine has its metrics: beside `/v1`, not below it."""
    query = f"?{endpoint.query}" if endpoint.query else ""
    return endpoint.base_path.removesuffix("/v1") + "/metrics" + query


def _fetch(endpoint: Endpoint, headers: Mapping[str, str], connecting: Connecting) -> str:
    question = Question(endpoint, metrics_path(endpoint))
    try:
        answer = ask(question, headers=headers, connecting=connecting, timeout_s=_TIMEOUT_S)
    except NoAnswerError as fault:
        msg = f"its metrics page cannot be had ({fault})"
        raise NoPageError(msg) from fault
    if answer.status != 200:
        msg = f"it has no metrics page (HTTP {answer.status})"
        raise NoPageError(msg)
    return answer.body.decode(errors="replace")
