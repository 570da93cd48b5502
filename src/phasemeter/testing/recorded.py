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

from phasemeter.core.clock import NS_PER_MS
from phasemeter.core.decoding import Dialect
from phasemeter.core.errors import UsageError
from phasemeter.core.meter import StreamEnd, StreamMeter
from phasemeter.core.timeline import Outcome, Timeline
from phasemeter.dialects import by_name


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
        except ValueError as fault:
            msg = f"case {path}: not JSON ({fault})"
            raise UsageError(msg) from fault
        try:
            return cls._of_document(document, path.stem)
        except UsageError as fault:
            msg = f"case {path}: {fault}"
            raise UsageError(msg) from fault
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            msg = f"case {path}: field missing or of the wrong form: {fault}"
            raise UsageError(msg) from fault

    @classmethod
    def _of_document(cls, document: Mapping[str, object], stem: str) -> RecordedCase:
        if not isinstance(document, dict):
            msg = f"a case is a JSON object, not {type(document).__name__}"
            raise UsageError(msg)
        end = document["end"]
        if end["how"] not in ("eof", "reset"):
            msg = f"end.how: {end['how']!r} is not known; accepted: eof, reset"
            raise UsageError(msg)
        headers_t_ms = document.get("headers_t_ms")
        return cls(
            name=str(document.get("name", stem)),
            dialect=by_name(document["dialect"]),
            status=int(document["status"]),
            headers={name.lower(): value for name, value in document["headers"].items()},
            headers_ns=None if headers_t_ms is None else _ns(headers_t_ms),
            reads=tuple((_ns(t_ms), _bytes(data)) for t_ms, data in document["reads"]),
            end_ns=_ns(end["t_ms"]),
            end=StreamEnd.EOF if end["how"] == "eof" else StreamEnd.LOST,
            expect=document.get("expect"),
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


def _ns(t_ms: float) -> int:
    return round(float(t_ms) * NS_PER_MS)


def _ms(t_ns: int | None) -> float | None:
    return None if t_ns is None else round(t_ns / NS_PER_MS, 3)


def _bytes(data: object) -> bytes:
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, dict) and isinstance(data.get("b64"), str):
        try:
            return base64.b64decode(data["b64"], validate=True)
        except binascii.Error as fault:
            msg = f"reads: not base64 ({fault})"
            raise UsageError(msg) from fault
    msg = f"reads: data is text or {{'b64': text}}, not {type(data).__name__}"
    raise UsageError(msg)
