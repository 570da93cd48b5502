"""Recognises events that say what an earlier one said, but for their text.

Most events of a response are written alike: the same JSON with another piece of text. Parsing each costs
several us; comparing the bytes around the text costs one. What is compared is exact: the bytes outside the
varying values must be the same, each varying value must be a well-formed JSON string or integer, and
text must be empty where it was empty. A dialect names the values that may vary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_STRING = re.compile(
    rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'  # up to its closing quote
)
_INTEGER = re.compile(rb"(?:0|[1-9][0-9]{0,17})(?![0-9.eE])")
_BETWEEN_TEXTS = b"\n"  # a byte that no JSON string holds
_TEXTS = re.compile(rb'(?:[^"\\\x00-\x09\x0b-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_MOST_FRUITLESS = 16


@dataclass(frozen=True, slots=True)
class Varying:
    """The values of a dialect's events that may differ between events of the same meaning.

    Attributes:
        text_keys: Keys of strings that mean nothing but "there is text" or "there is none".
        number_keys: Keys of integers that mean nothing here.
        running_count_key: Key of the running total of generated tokens, where events tell one.
    """

    text_keys: tuple[str, ...] = ()
    number_keys: tuple[str, ...] = ()
    running_count_key: str | None = None


@lru_cache(maxsize=32)
def _starts(varying: Varying) -> re.Pattern[bytes] | None:
    """Return what finds the start of each varying value; None where nothing may vary."""
    texts = b"|".join(re.escape(key.encode()) for key in varying.text_keys)
    if not texts:
        return None
    names = [*varying.number_keys, varying.running_count_key or ""]
    numbers = b"|".join(re.escape(key.encode()) for key in names if key) or rb"(?!)"
    return re.compile(
        rb'"(?<!\\")(?:(?:' + texts + rb')":[ ]?"|(?P<number>' + numbers + rb')":[ ]?(?=[0-9]))'
    )


class Repeats:
    """Compares blocks with the last one learned. A few of them a response; not thread-safe.

    Args:
        varying: What may vary.

    Attributes:
        running_count: Running total in the last block that matched; None where events tell none.
    """

    def __init__(self, varying: Varying) -> None:
        self.running_count: int | None = None
        self._starts = _starts(varying)
        self._running_count_key = (varying.running_count_key or "").encode()
        self._prefix = b""
        self._prefix_bytes = 0
        self._slots: tuple[tuple[re.Pattern[bytes], bool, bool, bytes, int], ...] = ()
        self._fruitless = 0

    def matches(self, block: bytes, end_mark: bytes = b"") -> bool:
        """Tell whether a block says what the learned one said, but for text and running count.

        Args:
            block: The block, with its end mark if one is given.
            end_mark: What must follow it.
        """
        if not self._slots or not block.startswith(self._prefix):
            return False
        place = self._prefix_bytes
        for value, was_empty, is_running_count, after, after_bytes in self._slots:
            found = value.match(block, place)
            if found is None:
                return False
            end = found.end()
            if (end == place) is not was_empty or not block.startswith(after, end):
                return False
            if is_running_count:
                self.running_count = int(found[0])
            place = end + after_bytes
        if block[place:] != end_mark:
            return False
        self._fruitless = 0
        return True

    def run(self, blocks: Sequence[bytes], end_mark: bytes) -> int:
        """Tell how many blocks in a row, from the first, `matches` would all take; 0 may be too few.

        Cheaper than one by one: the texts are checked together. Only for blocks with one text and no count.

        Args:
            blocks: The blocks with their end marks.
            end_mark: What must follow each.
        """
        if len(self._slots) != 1:
            return 0
        ((value, was_empty, _, after, _),) = self._slots
        if value is not _STRING or was_empty:
            return 0
        texts = _texts_between(self._prefix, after + end_mark, blocks)
        if not texts or not all(texts):
            return 0
        together = _BETWEEN_TEXTS.join(texts)
        if together.count(_BETWEEN_TEXTS) != len(texts) - 1 or not _TEXTS.fullmatch(together):
            return 0
        self._fruitless = 0
        return len(texts)

    def forget(self) -> None:
        """Match nothing until a block is learned: another kind of event has come in between."""
        self._slots = ()

    def learn(self, block: bytes, running_count: int | None) -> None:
        """Take a block as the one to compare with.

        To be called only with blocks whose meaning is one piece of text and perhaps a running count.
        """
        if self._starts is None or self._fruitless > _MOST_FRUITLESS:
            return
        self._fruitless += 1
        self._slots = ()
        slots: list[tuple[re.Pattern[bytes], bool, bool]] = []
        counts: list[int] = []
        cuts = [0]
        for start in self._starts.finditer(block):
            value = _STRING if start["number"] is None else _INTEGER
            found = value.match(block, start.end())
            if found is None:
                continue
            is_running_count = start["number"] == self._running_count_key
            if is_running_count:
                counts.append(int(found[0]))
            slots.append((value, found.end() == start.end(), is_running_count))
            cuts += (found.start(), found.end())
        if counts != ([] if running_count is None else [running_count]):
            return
        cuts.append(len(block))
        self.running_count = running_count
        self._prefix = block[: cuts[1]]
        self._prefix_bytes = cuts[1]
        afters = (block[cuts[i] : cuts[i + 1]] for i in range(2, len(cuts), 2))
        self._slots = tuple(
            (*slot, after, len(after)) for slot, after in zip(slots, afters, strict=True)
        )


def _texts_between(prefix: bytes, tail: bytes, blocks: Sequence[bytes]) -> list[bytes]:
    """Return what stands between prefix and tail in the blocks up to the first that has not both."""
    start, end = len(prefix), -len(tail)
    count = len(blocks)
    while count and not (blocks[count - 1].endswith(tail) and blocks[count - 1].startswith(prefix)):
        count -= 1  # what ends a response
    texts = [block[start:end] for block in blocks[:count]]
    # Put together again, they are the same bytes, and as many: so no block has anything else.
    again = b"".join((prefix, (tail + prefix).join(texts), tail))
    if all(texts) and again == b"".join(blocks[:count]):
        return texts
    texts = []
    for block in blocks[:count]:
        if not (block.startswith(prefix) and block.endswith(tail)):
            break
        texts.append(block[start:end])
    return texts
