"""Timelines as lines of JSON: the record format that runs, sinks and reports share.

A record file starts with a header line that carries the schema version and the wall-clock anchor.
After it, an `issued` line stands for each request that was started and a record line for each one that
ended, so that a file cut off at any point still tells which requests were in flight. Event times are
deltas; kinds and token counts are run-length coded. No text of prompt or answer is in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, groupby, islice, pairwise
from operator import sub

from phasemeter.core.clock import WallAnchor
from phasemeter.core.timeline import Leg, Outcome, Timeline, Usage
from phasemeter.core.token_events import TokenEvent, TokenEvents

SCHEMA_VERSION = 1

_INSTANTS = ("intended_ns", "connected_ns", "sent_ns", "headers_ns", "first_event_ns")


@dataclass(frozen=True, slots=True)
class Issued:
    """A request that was started.

    Attributes:
        request_id: The request's identifier; its record carries the same.
        started_ns: Just before it was issued.
        tags: Its labels.
    """

    request_id: str
    started_ns: int
    tags: Mapping[str, str]


def header_line(anchor: WallAnchor, about: Mapping[str, str | int]) -> str:
    """Return the first line of a record file (without line feed)."""
    return _line({"phasemeter_records": SCHEMA_VERSION, "anchor": asdict(anchor), **about})


def issued_line(issued: Issued) -> str:
    """Return the line that says a request was started."""
    return _line(
        {"issued": issued.request_id, "started_ns": issued.started_ns, "tags": dict(issued.tags)}
    )


def record_line(timeline: Timeline) -> str:
    """Return the line of a response that ended."""
    document: dict[str, object] = {
        "id": timeline.request_id,
        "dialect": timeline.dialect,
        "operation": timeline.operation,
        "model": timeline.model,
        "response_model": timeline.response_model,
        "stamp_source": timeline.stamp_source,
        "outcome": timeline.outcome.value,
        "error_type": timeline.error_type,
        "finish_reason": timeline.finish_reason,
        "http_status": timeline.http_status,
        "started_ns": timeline.started_ns,
        "ended_ns": timeline.ended_ns,
        "choices": timeline.choices,
        "usage": asdict(timeline.usage),
        "tags": dict(timeline.tags),
    }
    document |= {name: getattr(timeline, name) for name in _INSTANTS}
    if timeline.events:
        document["events"] = _pack_events(timeline.events)
    if not timeline.streamed:
        document["streamed"] = False
    if timeline.clock_stepped:
        document["clock_stepped"] = True
    if timeline.consumer_waits_ns:
        document["consumer_waits_ns"] = list(timeline.consumer_waits_ns)
    if timeline.legs:
        document["legs"] = [asdict(leg) for leg in timeline.legs]
    if timeline.server:
        document["server"] = dict(timeline.server)
    return _line({name: value for name, value in document.items() if value is not None})


def parse_record(document: Mapping[str, object]) -> Timeline:
    """Return the timeline of a decoded record line.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, StopIteration: If the line is not a record of
            this schema.
    """
    fields = {name: _instant(document[name]) for name in _INSTANTS if name in document}
    return Timeline(
        request_id=_text(document["id"]),
        dialect=_text(document["dialect"]),
        operation=_text(document["operation"]),
        model=document.get("model"),  # type: ignore[arg-type]
        response_model=document.get("response_model"),  # type: ignore[arg-type]
        stamp_source=document["stamp_source"],  # type: ignore[arg-type]
        outcome=Outcome(_text(document["outcome"])),
        error_type=document.get("error_type"),  # type: ignore[arg-type]
        finish_reason=document.get("finish_reason"),  # type: ignore[arg-type]
        http_status=document.get("http_status"),  # type: ignore[arg-type]
        started_ns=_instant(document["started_ns"]),
        ended_ns=_instant(document["ended_ns"]),
        choices=document.get("choices", 0),  # type: ignore[arg-type]
        usage=Usage(**document.get("usage", {})),  # type: ignore[arg-type]
        tags=_labels(document.get("tags", {})),
        events=_unpack_events(document.get("events")),  # type: ignore[arg-type]
        streamed=document.get("streamed", True),  # type: ignore[arg-type]
        clock_stepped=document.get("clock_stepped", False),  # type: ignore[arg-type]
        consumer_waits_ns=tuple(document.get("consumer_waits_ns", ())),  # type: ignore[arg-type]
        legs=tuple(Leg(**leg) for leg in document.get("legs", ())),  # type: ignore[attr-defined]
        server=document.get("server", {}),  # type: ignore[arg-type]
        **fields,
    )


def parse_issued(document: Mapping[str, object]) -> Issued:
    """Return what a decoded `issued` line says."""
    return Issued(
        request_id=_text(document["issued"]),
        started_ns=_instant(document["started_ns"]),
        tags=_labels(document.get("tags", {})),
    )


def _pack_events(events: Sequence[TokenEvent]) -> dict[str, object]:
    columns = TokenEvents.of(events)
    times_ns, reads = columns.times_ns, columns.reads
    packed: dict[str, object] = {
        "first_ns": times_ns[0],
        "deltas_ns": list(map(sub, islice(times_ns, 1, None), times_ns)),
        "kinds": _runs(columns.kinds),
        "tokens": _runs(columns.tokens),
    }
    coalesced = [i for i, (a, b) in enumerate(pairwise(reads), start=1) if a == b]
    if coalesced:
        packed["coalesced"] = coalesced
    limited = [i for i, is_limited in enumerate(columns.limited) if is_limited]
    if limited:
        packed["consumer_limited"] = limited
    return packed


def _unpack_events(packed: Mapping[str, list[int]] | None) -> Sequence[TokenEvent]:
    if packed is None:
        return ()
    coalesced = set(packed.get("coalesced", ()))
    limited = set(packed.get("consumer_limited", ()))
    first_ns: int = packed["first_ns"]  # type: ignore[assignment]
    times_ns = list(accumulate(packed["deltas_ns"], initial=first_ns))
    count = len(times_ns)
    kinds = _expand(packed["kinds"], count)  # type: ignore[arg-type]
    tokens = _expand(packed["tokens"], count)  # type: ignore[arg-type]
    return TokenEvents(
        times_ns,
        kinds,  # type: ignore[arg-type]
        tokens,  # type: ignore[arg-type]
        list(accumulate((index not in coalesced for index in range(1, count)), initial=0)),
        [index in limited for index in range(count)] if limited else (),
    )


def _runs(values: Sequence[object]) -> list[list[object]]:
    return [[value, len(list(group))] for value, group in groupby(values)]


def _expand(runs: Sequence[tuple[object, int]], least: int) -> list[object]:
    """Return the values of runs, so many of them.

    Raises:
        ValueError: If there are fewer.
    """
    values = [value for value, count in runs for _ in range(count)]
    if len(values) < least:
        msg = f"{len(values)} values for {least} events"
        raise ValueError(msg)
    return values[:least]


def _instant(value: object) -> int:
    if not isinstance(value, int):
        msg = f"expected an instant in ns, got {type(value).__name__}"
        raise TypeError(msg)
    return value


def _labels(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        msg = "expected labels, each a text"
        raise TypeError(msg)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        msg = f"expected text, got {type(value).__name__}"
        raise TypeError(msg)
    return value


def _line(document: Mapping[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"))
