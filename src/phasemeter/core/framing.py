"""Bytes of a response body to frames: server-sent events, JSON lines, or one JSON body.

A streamed JSON array has its framer in `json_array`.

The framers are fed with whatever a read brought and may be split anywhere, also inside a character.
SSE follows the WHATWG event-stream grammar: a line ends with LF, CRLF or CR (a CR ends it at once and
an LF right after is swallowed), one leading byte-order mark is removed, comments are skipped.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class Frame(NamedTuple):
    """One protocol event.

    Attributes:
        data: Payload text; data lines joined by a line feed.
        event: SSE event name, or None.
        is_error: The payload came in the non-standard SSE field `error`.
    """

    data: str
    event: str | None = None
    is_error: bool = False


class Framer:
    """Turns body bytes into frames in two steps, `split` and `frame`; knows nothing about time.

    Blocks come out as bytes, so that one that says what an earlier one said need not be parsed.

    Attributes:
        end_mark: What ends a block, for bytes that need not go through `split` while `is_between`.
        is_between: The bytes so far end with the end of a block, and the next ones start a block.
    """

    end_mark = b""
    is_between = False

    def split(self, data: bytes) -> list[bytes]:
        """Take the bytes of one read and return the blocks that they complete."""
        raise NotImplementedError

    def frame(self, block: bytes) -> Frame | None:
        """Return what a block holds, None where it holds no event."""
        return Frame(block.decode("utf-8", errors="replace"))

    def whole(self, data: bytes) -> Frame | None:
        """Return the frame of a read that is one plain block, taken while `is_between`; else None.

        What it returns a frame for is done with; other reads are to be split.
        """
        del data
        return None

    def finish(self) -> list[Frame]:
        """Return what a clean end of the body still completes; call once, only at a clean end."""
        return []

    def feed(self, data: bytes) -> list[Frame]:
        """Take the bytes of one read and return the frames that they complete."""
        frames = map(self.frame, self.split(data))
        return [frame for frame in frames if frame is not None]


class SseFramer(Framer):
    """Server-sent events."""

    end_mark = b"\n\n"

    def __init__(self) -> None:
        self.is_between = True
        self._pending = bytearray()
        self._searched_bytes = 0
        self._after_cr = False
        self._at_start = True

    def split(self, data: bytes) -> list[bytes]:
        """Take the bytes of one read and return the blocks whose blank line they bring."""
        if not data:
            return []
        if (
            self.is_between
            and 0 <= data.find(b"\n\n") == len(data) - 2
            and b"\r" not in data
            and not (self._at_start and data.startswith(_BOM))
        ):
            self._at_start = False
            return [data[:-2]]  # the usual read: one whole event
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        else:
            self._after_cr = False
        self._pending += data
        if self._at_start and not self._strip_bom():
            self.is_between = False
            return []
        return self._complete_blocks()

    def frame(self, block: bytes) -> Frame | None:
        """Return the event of a block; None for one of comments only."""
        return _frame_of_block(block)

    def whole(self, data: bytes) -> Frame | None:
        """Return the event of a read that is one line of data and a blank one."""
        if (
            data.startswith(b"data: ")
            and data.find(b"\n") == len(data) - 2
            and data.endswith(b"\n")
            and b"\r" not in data
        ):
            self._at_start = False
            return Frame(data[6:-2].decode("utf-8", errors="replace"))
        return None

    def finish(self) -> list[Frame]:
        """Return the pending event if its data is complete JSON or the end mark."""
        frame = _frame_of_block(bytes(self._pending))
        self._pending.clear()
        if frame is not None and (frame.data.strip() == "[DONE]" or _is_json(frame.data)):
            return [frame]
        return []

    def _strip_bom(self) -> bool:
        if len(self._pending) < len(_BOM) and _BOM.startswith(self._pending):
            return False
        if self._pending.startswith(_BOM):
            del self._pending[: len(_BOM)]
        self._at_start = False
        return True

    def _complete_blocks(self) -> list[bytes]:
        blocks: list[bytes] = []
        pending = self._pending
        start = 0
        end = pending.find(b"\n\n", max(self._searched_bytes - 1, 0))
        while end >= 0:
            blocks.append(bytes(pending[start:end]))
            start = end + 2
            end = pending.find(b"\n\n", start)
        # A stray line end right after a block is an empty line of its own: without this, a blank
        # line that follows in the next read would be taken for the end of a block with content.
        while start < len(pending) and pending[start] == 0x0A:
            start += 1
        del pending[:start]
        self._searched_bytes = len(pending)
        self.is_between = not pending and not self._after_cr
        return blocks


def _frame_of_block(block: bytes) -> Frame | None:
    text = block.decode("utf-8", errors="replace")
    if text.startswith("data: ") and "\n" not in text:
        return Frame(text[6:])
    data: list[str] = []
    event: str | None = None
    is_error = False
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value or None
        elif name == "error":
            data.append(value)
            is_error = True
    if not data and text.lstrip().startswith(("{", "[")):
        return _raw_error(text)
    return Frame("\n".join(data), event, is_error) if data else None


def _raw_error(text: str) -> Frame | None:
    """Some servers break a stream off with a bare JSON error, without any field name before it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(document, list) and len(document) == 1:
        document, text = document[0], json.dumps(document[0])
    told = isinstance(document, dict) and bool(document.get("error"))
    return Frame(text, is_error=True) if told else None


class JsonLinesFramer(Framer):
    """One JSON document a line; empty lines are skipped."""

    end_mark = b"\n"

    def __init__(self) -> None:
        self._pending = bytearray()

    def split(self, data: bytes) -> list[bytes]:
        """Take the bytes of one read and return the lines whose line feed they bring."""
        self._pending += data
        if b"\n" not in data:
            self.is_between = not self._pending
            return []
        *lines, rest = self._pending.split(b"\n")
        self._pending = rest
        self.is_between = not rest
        return list(map(bytes, lines))

    def frame(self, block: bytes) -> Frame | None:
        """Return the document of a line; None for an empty one."""
        text = block.decode("utf-8-sig", errors="replace").strip()
        return Frame(text) if text else None

    def finish(self) -> list[Frame]:
        """Return the unterminated last line if it is complete JSON."""
        text = self._pending.decode("utf-8-sig", errors="replace").strip()
        self._pending.clear()
        return [Frame(text)] if _is_json(text) else []


class JsonBodyFramer(Framer):
    """A body that is one JSON document: one frame, complete with the body's last byte."""

    def __init__(self) -> None:
        self._body = bytearray()

    def split(self, data: bytes) -> list[bytes]:
        """Keep the bytes; the document is complete only at the end of the body."""
        self._body += data
        return []

    def finish(self) -> list[Frame]:
        """Return the document if it is complete JSON."""
        text = self._body.decode("utf-8-sig", errors="replace")
        return [Frame(text)] if _is_json(text) else []


class BodyForm(Enum):
    """What a response body is written as."""

    EVENTS = "events"
    """Server-sent events."""
    OBJECTS = "objects"
    """A JSON object, or one a line."""
    ARRAY = "array"
    """A JSON array."""


def form_of(start: bytes) -> BodyForm | None:
    """Tell from a body's first bytes what it is written as.

    A content type is only a hint (servers label event streams as JSON and the reverse), so the bytes
    decide. None means that more bytes are needed.
    """
    text = start.removeprefix(_BOM).lstrip(b" \t\r\n")
    if not text or _BOM.startswith(start):
        return None
    return {b"{": BodyForm.OBJECTS, b"[": BodyForm.ARRAY}.get(text[:1], BodyForm.EVENTS)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
