"""Token events: one as a tuple, and those of a response by columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Literal, NamedTuple, overload

TokenKind = Literal["reasoning", "content", "refusal", "tool_call", "audio"]
"""Kinds of generated text, in the order in which they are counted within one event."""


class TokenEvent(NamedTuple):
    """One event that carried generated text of one kind.

    Attributes:
        t_ns: Arrival of the read that completed the event.
        kind: Kind of the text.
        tokens: Tokens in the event, or None where the wire does not tell.
        read: Index of the read that completed the event. Two events of one read have no gap.
        consumer_limited: The gap before the read is the application's and not the stream's: at one of
            its ends bytes had been waiting to be asked for.
    """

    t_ns: int
    kind: TokenKind
    tokens: int | None
    read: int
    consumer_limited: bool = False


class TokenEvents(Sequence[TokenEvent]):
    """The token events of a response, kept by columns; a `TokenEvent` is made when one is asked for.

    A response may have thousands of events, and most of what is made of them needs their times only.

    Attributes:
        times_ns: Arrival of the read that completed each event.
        kinds: Kind of the text of each.
        tokens: Tokens in each, where the wire tells.
        reads: Index of the read of each.
        limited: Which of them the consumer limited; empty for none.
    """

    __slots__ = ("kinds", "limited", "reads", "times_ns", "tokens")

    def __init__(
        self,
        times_ns: Sequence[int],
        kinds: Sequence[TokenKind],
        tokens: Sequence[int | None],
        reads: Sequence[int],
        limited: Sequence[bool] = (),
    ) -> None:
        self.times_ns = times_ns
        self.kinds = kinds
        self.tokens = tokens
        self.reads = reads
        self.limited = limited

    @classmethod
    def of(cls, events: Sequence[TokenEvent]) -> TokenEvents:
        """Return events by columns."""
        if isinstance(events, cls):
            return events
        return cls(
            [event.t_ns for event in events],
            [event.kind for event in events],
            [event.tokens for event in events],
            [event.read for event in events],
            [event.consumer_limited for event in events],
        )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.times_ns)

    @overload
    def __getitem__(self, index: int) -> TokenEvent: ...
    @overload
    def __getitem__(self, index: slice) -> TokenEvents: ...
    def __getitem__(self, index: int | slice) -> TokenEvent | TokenEvents:
        """Return one event, or some of them."""
        if isinstance(index, slice):
            return TokenEvents(
                self.times_ns[index],
                self.kinds[index],
                self.tokens[index],
                self.reads[index],
                self.limited[index],
            )
        return TokenEvent(
            self.times_ns[index],
            self.kinds[index],
            self.tokens[index],
            self.reads[index],
            bool(self.limited) and self.limited[index],
        )

    def __iter__(self) -> Iterator[TokenEvent]:
        """Yield the events in order."""
        limited = self.limited or repeat(False)  # noqa: FBT003
        return map(TokenEvent, self.times_ns, self.kinds, self.tokens, self.reads, limited)

    def __eq__(self, other: object) -> bool:
        """Tell whether the same events come in the same order."""
        if not isinstance(other, tuple | list | TokenEvents):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the events as a tuple would show them."""
        return repr(tuple(self))
