"""Attributes that spans and metrics share."""

from __future__ import annotations

from collections.abc import Mapping

from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.sinks import semconv as names
from phasemeter.transports.request import RequestInfo


def request_attributes(request: RequestInfo) -> Mapping[str, str | int]:
    """Return the attributes that are known before the response (a sampler sees these)."""
    attributes: dict[str, str | int] = {
        names.OPERATION_NAME: request.operation,
        names.PROVIDER_NAME: request.provider,
    }
    if request.model is not None:
        attributes[names.REQUEST_MODEL] = request.model
    if request.server_address is not None:
        attributes[names.SERVER_ADDRESS] = request.server_address
        if request.server_port is not None:
            attributes[names.SERVER_PORT] = request.server_port
    return attributes


def error_type_of(timeline: Timeline) -> str | None:
    """Return `error.type` of a response, or None where it is no error.

    Not errors: ok, empty, and cancelled by a deliberate close (a cancelled task or an interrupt is one).
    Values: the classes of `phasemeter.core.errors`, qualified exception names, `timeout`,
    `no_response`, `truncated`, `abandoned`.
    """
    if timeline.outcome in (Outcome.OK, Outcome.EMPTY):
        return None
    if timeline.outcome is Outcome.CANCELLED:
        return timeline.error_type
    return timeline.error_type or timeline.outcome.value
