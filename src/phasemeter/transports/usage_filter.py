"""Takes the chunk that only tells the token counts out of an event stream, byte by byte exact.

For streams whose counts the application did not ask for. Complete events are passed on at once; held
back is only an event that is not complete yet.
"""

from __future__ import annotations

import json
import re

from phasemeter.core.framing import BodyForm, SseFramer, form_of

_BOM = b"\xef\xbb\xbf"
_LINE_END = rb"(?>\r\n|\n|\r)"
_BLANK_LINES = re.compile(_LINE_END + rb"+")
_EVENT_END = re.compile(_LINE_END + _LINE_END)
_MAX_EVENT_BYTES = 65_536
"""A longer event is no usage chunk: it is passed on unread, as it comes."""
_TAIL_BYTES = 2
"""As much of an event's end may have come without the rest: a line end of two bytes."""


class UsageFilter:
    """Filters one response body; the output does not depend on how the body is split into reads."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._form: BodyForm | None = None
        self._is_long = False
        self._after_cr = False
        self._hid_last = False

    def feed(self, data: bytes) -> bytes:
        """Take the bytes of a read and return what is to be passed on of all that came."""
        if self._form is BodyForm.EVENTS and not self._held and not self._after_cr:
            whole = data.endswith(b"\n\n") and data.find(b"\n\n") == len(data) - 2
            if whole and b"\r" not in data and data[:1] != b"\n":
                return b"" if _only_tells_usage(data) else data  # the usual read: one whole event
        elif self._form not in (None, BodyForm.EVENTS):
            return data
        out = bytearray()
        if self._after_cr and data:
            # The second half of a line end of two bytes shares the fate of the first.
            if data[:1] == b"\n":
                out += b"" if self._hid_last else b"\n"
                data = data[1:]
            self._after_cr = False
        seen = len(self._held)
        self._held += data
        if self._form is None:
            self._form = form_of(bytes(self._held))
            if self._form is not BodyForm.EVENTS:
                return bytes(out) + (b"" if self._form is None else self.release())
        self._take_events(out, seen)
        return bytes(out)

    def finish(self) -> bytes:
        """Return what is left at the body's end, unless it is a usage chunk without a blank line."""
        last = self.release()
        return _mark_of(last) if not self._is_long and _only_tells_usage(last) else last

    def release(self) -> bytes:
        """Return what is held back; for a body that broke off."""
        held = bytes(self._held)
        self._held.clear()
        return held

    def _take_events(self, out: bytearray, seen: int) -> None:
        """Move the complete events that are held to `out`; the first `seen` bytes end none."""
        held = self._held
        start = 0
        while start < len(held):
            blank = None if self._is_long else _BLANK_LINES.match(held, start)
            end = blank or _EVENT_END.search(held, max(start, seen - _TAIL_BYTES))
            if end is None:
                break
            block = bytes(held[start : end.end()])
            self._hid_last = not blank and not self._is_long and _only_tells_usage(block)
            out += _mark_of(block) if self._hid_last else block
            start = end.end()
            self._is_long = False
            self._after_cr = block.endswith(b"\r") and start == len(held)
        del held[:start]
        if self._is_long or len(held) > _MAX_EVENT_BYTES:
            self._is_long = True
            out += held[:-_TAIL_BYTES]
            del held[:-_TAIL_BYTES]


def _mark_of(block: bytes) -> bytes:
    """Return the byte-order mark before a body's first event: it is no part of the event."""
    return _BOM if block.startswith(_BOM) else b""


def _only_tells_usage(block: bytes) -> bool:
    """Tell whether an event is the chunk that `include_usage` adds: no choices, and counts."""
    if len(block) > _MAX_EVENT_BYTES or b'"usage"' not in block or b'"choices"' not in block:
        return False
    framer = SseFramer()
    frames = [*framer.feed(block), *framer.finish()]
    if len(frames) != 1 or frames[0].is_error:
        return False
    try:
        chunk = json.loads(frames[0].data)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(chunk, dict)
        and chunk.get("choices") == []
        and isinstance(chunk.get("usage"), dict)
        and not chunk.get("error")
        and not chunk.get("prompt_filter_results")
    )
