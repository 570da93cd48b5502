"""A streamed JSON array to frames: each element is one, complete when its closing brace arrives.

Elements do not align with reads, and braces occur inside strings; only as much of the grammar is
followed as finding the ends of the elements needs.
"""

from __future__ import annotations

import re

from phasemeter.core.framing import Framer

_OUTSIDE_STRING = re.compile(rb'["{}\[\]]')
_INSIDE_STRING = re.compile(rb'["\\]')


class JsonArrayFramer(Framer):
    """One JSON array; its objects are the frames, everything between them is skipped."""

    def __init__(self) -> None:
        self._element = bytearray()
        self._depth = 0
        self._in_string = False
        self._after_backslash = False

    def split(self, data: bytes) -> list[bytes]:
        """Take the bytes of one read and return the elements whose closing brace they bring."""
        elements: list[bytes] = []
        start = 0
        place = self._next_mark(data, 0)
        while place >= 0:
            mark = data[place : place + 1]
            if self._depth == 0:
                if mark == b"{":
                    self._depth, start = 1, place
            elif mark in b"{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 0:
                    self._element += data[start : place + 1]
                    elements.append(bytes(self._element))
                    self._element.clear()
            place = self._next_mark(data, place + 1)
        if self._depth:
            self._element += data[start:]
        return elements

    def _next_mark(self, data: bytes, place: int) -> int:
        """Return the place of the next brace or bracket outside strings, -1 where there is none."""
        while True:
            if self._after_backslash and place < len(data):
                self._after_backslash = False
                place += 1
            search = _INSIDE_STRING if self._in_string else _OUTSIDE_STRING
            found = search.search(data, place)
            if found is None:
                return -1
            place = found.end()
            if found[0] == b"\\":
                self._after_backslash = True
            elif found[0] == b'"':
                self._in_string = not self._in_string
            else:
                return found.start()
