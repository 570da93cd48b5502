"""Attributes that spans and metrics share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.sinks import semconv as names
from phasemeter.transports.request import RequestInfo


def request_attributes(request: RequestInfo) -> Mapping[str, str | int]:
    """Return the attributes that are known before the response (a sampler sees these)."""
    return _attributes(
        request.operation,
        request.provider,
        request.model,
        request.server_address,
        request.server_port,
    )


@lru_cache(maxsize=256)
def _attributes(
    operation: str, provider: str, model: str | None, address: str | None, port: int | None
) -> Mapping[str, str | int]:
    attributes: dict[str, str | int] = {
        names.OPERATION_NAME: operation,
        names.PROVIDER_NAME: provider,
    }
    if model is not None:
        attributes[names.REQUEST_MODEL] = model
    if address is not None:
        attributes[names.SERVER_ADDRESS] = address
        if port is not None:
            attributes[names.SERVER_PORT] = port
    return MappingProxyType(attributes)


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
