"""Recorded streams: read a case file and run it through framing, dialect and timeline.

A case holds the reads of one response (`[t_ms, text]` or `[t_ms, {"b64": ...}]`, origin 0 = request
sent), its status and headers, how it ended, and may hold what is expected of it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.decoding import Dialect
from phasemeter.core.errors import UsageError
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.dialects import by_name

_T = TypeVar("_T")
_FORMS: Mapping[type, str] = {dict: "an object", list: "a list", str: "text", int: "a whole number"}
_ENDS = {"eof": StreamEnd.EOF, "reset": StreamEnd.LOST}
_MAX_MS = 1e12


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """One recorded response.

    Attributes:
        name: Name of the case.
        dialect: Dialect it is written in.
        status: HTTP status.
        headers: Response headers, lower-case names.
        headers_ns: When the headers were there; None where the case does not say.
        reads: (time in ns, bytes as they came from the socket) a read.
        end_ns: End of the connection.
        end: How it ended.
        expect: The fields that the case expects, or None.
    """

    name: str
    dialect: Dialect
    status: int
    headers: Mapping[str, str]
    headers_ns: int | None
    reads: tuple[tuple[int, bytes], ...]
    end_ns: int
    end: StreamEnd
    expect: Mapping[str, object] | None

    @classmethod
    def load(cls, path: Path) -> RecordedCase:
        """Read a case file.

        Raises:
            UsageError: If the file cannot be read, is not JSON, or lacks or misstates a field.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as fault:
            msg = f"case {path}: cannot be read ({fault.strerror})"
            raise UsageError(msg) from fault
        except (ValueError, RecursionError) as fault:
            msg = f"case {path}: not JSON ({fault})"
            raise UsageError(msg) from fault
        try:
            return cls._of_document(document, path.stem)
        except UsageError as fault:
            msg = f"case {path}: {fault}"
            raise UsageError(msg) from fault

    @classmethod
    def _of_document(cls, document: Mapping[str, object], stem: str) -> RecordedCase:
        if not isinstance(document, dict):
            msg = f"a case is a JSON object, not {type(document).__name__}"
            raise UsageError(msg)
        headers_t_ms = document.get("headers_t_ms")
        end_ns, end = _end(_field(document, "end", dict))
        return cls(
            name=str(document.get("name", stem)),
            dialect=by_name(_field(document, "dialect", str)),
            status=_field(document, "status", int),
            headers=_headers(_field(document, "headers", dict)),
            headers_ns=None if headers_t_ms is None else _ns(headers_t_ms, "headers_t_ms"),
            reads=tuple(_read(one, i) for i, one in enumerate(_field(document, "reads", list))),
            end_ns=end_ns,
            end=end,
            expect=_field(document, "expect", dict) if document.get("expect") is not None else None,
        )

    def run(self) -> Timeline:
        """Feed the recorded reads to a meter and return the timeline."""
        meter = StreamMeter(
            self.dialect,
            request_id=self.name,
            model=None,
            started_ns=0,
            stamp_source="recv",
        )
        meter.sent_ns = 0
        first_ns = self.reads[0][0] if self.reads else self.end_ns
        headers_ns = first_ns if self.headers_ns is None else self.headers_ns
        meter.on_headers(headers_ns, self.status, self.headers)
        for t_ns, data in self.reads:
            meter.on_read(t_ns, data)
        return meter.finish(self.end_ns, self.end)


def summary_of(timeline: Timeline) -> dict[str, object]:
    """Return a timeline in the form in which a case states what it expects (times in ms)."""
    usage = timeline.usage
    return {
        "outcome": timeline.outcome.value,
        "error": timeline.error_type if timeline.outcome is Outcome.ERROR else None,
        "headers_ms": _ms(timeline.headers_ns),
        "first_event_ms": _ms(timeline.first_event_ns),
        "first_token_ms": _ms(timeline.first_token_ns),
        "first_answer_ms": _ms(timeline.first_answer_ns),
        "last_token_ms": _ms(timeline.last_token_ns),
        "token_events": [[_ms(e.t_ns), e.kind, e.tokens] for e in timeline.events],
        "gaps_ms": [_ms(gap_ns) for gap_ns, _ in timeline.gaps()],
        "coalesced_events": timeline.coalesced_events,
        "output_tokens": usage.output_tokens,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "finish_reason": timeline.finish_reason,
        "choices": timeline.choices,
    }


def differences(
    timeline: Timeline, expect: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """Return {field: (measured, expected)} for each expected field that was measured otherwise."""
    measured = summary_of(timeline)
    return {
        name: (measured.get(name), value)
        for name, value in expect.items()
        if measured.get(name) != value
    }


def _field(document: Mapping[str, object], name: str, form: type[_T]) -> _T:
    if name not in document:
        msg = f"{name}: missing; accepted: {_FORMS[form]}"
        raise UsageError(msg)
    value = document[name]
    if not isinstance(value, form) or isinstance(value, bool):
        msg = f"{name}: {_FORMS[form]} is accepted, not {type(value).__name__}"
        raise UsageError(msg)
    return value


def _headers(headers: Mapping[str, object]) -> dict[str, str]:
    for name, value in headers.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            msg = f"headers.{name}: text is accepted, not {type(value).__name__}"
            raise UsageError(msg)
    return {name.lower(): str(value) for name, value in headers.items()}


def _end(end: Mapping[str, object]) -> tuple[int, StreamEnd]:
    how = _field(end, "how", str)
    if how not in _ENDS:
        msg = f"end.how: {how!r} is not known; accepted: {', '.join(_ENDS)}"
        raise UsageError(msg)
    return _ns(end.get("t_ms"), "end.t_ms"), _ENDS[how]


def _read(read: object, index: int) -> tuple[int, bytes]:
    if not isinstance(read, list) or len(read) != 2:
        msg = f"reads[{index}]: a read is [t_ms, text or {{'b64': text}}]"
        raise UsageError(msg)
    return _ns(read[0], f"reads[{index}]"), _bytes(read[1])


def _ns(t_ms: object, name: str) -> int:
    if isinstance(t_ms, bool) or not isinstance(t_ms, int | float) or not abs(t_ms) < _MAX_MS:
        msg = f"{name}: a time in ms is accepted, not {t_ms!r}"
        raise UsageError(msg)
    return round(t_ms * NS_PER_MS)


def _ms(t_ns: int | None) -> float | None:
    return None if t_ns is None else round(t_ns / NS_PER_MS, 3)


def _bytes(data: object) -> bytes:
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError as fault:
            msg = f"reads: not text ({fault.reason})"
            raise UsageError(msg) from fault
    if isinstance(data, dict) and isinstance(data.get("b64"), str):
        try:
            return base64.b64decode(data["b64"], validate=True)
        except binascii.Error as fault:
            msg = f"reads: not base64 ({fault})"
            raise UsageError(msg) from fault
    msg = f"reads: data is text or {{'b64': text}}, not {type(data).__name__}"
    raise UsageError(msg)
