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

    Args:
        times_ns: Arrival of the read that completed each event.
        kinds: Kind of the text of each.
        tokens: Tokens in each, where the wire tells.
        reads: Index of the read of each.
        limited: Which of them the consumer limited; empty for none.
    """

    __slots__ = ("_kinds", "_limited", "_reads", "_times_ns", "_tokens")

    def __init__(
        self,
        times_ns: Sequence[int],
        kinds: Sequence[TokenKind],
        tokens: Sequence[int | None],
        reads: Sequence[int],
        limited: Sequence[bool] = (),
    ) -> None:
        self._times_ns = times_ns
        self._kinds = kinds
        self._tokens = tokens
        self._reads = reads
        self._limited = limited

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

    @property
    def times_ns(self) -> Sequence[int]:
        """Arrival of the read that completed each event."""
        return self._times_ns

    @property
    def kinds(self) -> Sequence[TokenKind]:
        """Kind of the text of each."""
        return self._kinds

    @property
    def tokens(self) -> Sequence[int | None]:
        """Tokens in each, where the wire tells."""
        return self._tokens

    @property
    def reads(self) -> Sequence[int]:
        """Index of the read of each."""
        return self._reads

    @property
    def limited(self) -> Sequence[bool]:
        """Which of them the consumer limited; empty for none."""
        return self._limited

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._times_ns)

    @overload
    def __getitem__(self, index: int) -> TokenEvent: ...
    @overload
    def __getitem__(self, index: slice) -> TokenEvents: ...
    def __getitem__(self, index: int | slice) -> TokenEvent | TokenEvents:
        """Return one event, or some of them."""
        if isinstance(index, slice):
            return TokenEvents(
                self._times_ns[index],
                self._kinds[index],
                self._tokens[index],
                self._reads[index],
                self._limited[index],
            )
        return TokenEvent(
            self._times_ns[index],
            self._kinds[index],
            self._tokens[index],
            self._reads[index],
            bool(self._limited) and self._limited[index],
        )

    def __iter__(self) -> Iterator[TokenEvent]:
        """Yield the events in order."""
        limited = self._limited or repeat(False)  # noqa: FBT003
        return map(TokenEvent, self._times_ns, self._kinds, self._tokens, self._reads, limited)

    def __eq__(self, other: object) -> bool:
        """Tell whether the same events come in the same order."""
        if not isinstance(other, tuple | list | TokenEvents):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the events as a tuple would show them."""
        return repr(tuple(self))
