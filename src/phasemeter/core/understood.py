"""What the events of a response have said: token events, usage, finish, error."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from phasemeter.core.decoding import DecodedEvent, TokenPart
from phasemeter.core.timeline import Usage
from phasemeter.core.token_events import TokenEvents, TokenKind


class Understood:
    """What the events of a response have said so far."""

    def __init__(self) -> None:
        self.first_event_ns: int | None = None
        self.times_ns: list[int] = []
        self.kinds: list[TokenKind] = []
        self.tokens: list[int | None] = []
        self.reads: list[int] = []
        self.shared_reads: set[int] = set()  # those that brought more than whole token events
        self.choices: set[int] = set()
        self.finish_reason: str | None = None
        self.terminal = False
        self.done = False
        self.error_type: str | None = None
        self.model: str | None = None
        self.server: dict[str, float] = {}
        self._usage = Usage()
        self._running_total: int | None = None  # newer than the one in `_usage`
        self._totals: dict[int, int] = {}  # running totals, by index of the token event
        self._crowded: set[int] = set()  # indexes of token events that shared an event with others

    @property
    def usage(self) -> Usage:
        """Counts told so far."""
        if self._running_total is not None:
            self._usage = replace(self._usage, output_tokens=self._running_total)
            self._running_total = None
        return self._usage

    def take(self, event: DecodedEvent, t_ns: int, read: int) -> None:
        """Take an event that was decoded."""
        parts = event.parts
        if not parts:
            self.shared_reads.add(read)
        for part in parts:
            alone = len(parts) == 1 or not _shares_choice(parts, part)
            if len(parts) > 1:
                self._crowded.add(len(self.times_ns))
            if event.running_output_tokens is not None:
                self._totals[len(self.times_ns)] = event.running_output_tokens
            self.times_ns.append(t_ns)
            self.kinds.append(part.kind)
            self.tokens.append(part.tokens if alone else None)
            self.reads.append(read)
        self.choices.update(event.choices)
        if event.usage is not None:
            self._usage = _merged(self.usage, event.usage)
        if event.finish_reason:
            self.finish_reason = event.finish_reason
        if event.terminal:
            self.terminal = True
        if event.done:
            self.done = True
        if self.error_type is None:
            self.error_type = event.error_type
        if self.model is None:
            self.model = event.model
        if event.server:
            self.server.update(event.server)

    def repeat(self, total: int | None, t_ns: int, read: int) -> None:
        """Take an event that says what the last one said, but for its text and its running total."""
        if total is not None:
            self._totals[len(self.times_ns)] = self._running_total = total
        self.times_ns.append(t_ns)
        self.kinds.append(self.kinds[-1])
        self.tokens.append(self.tokens[-1])
        self.reads.append(read)

    def repeat_run(self, times_ns: Sequence[int], reads: Sequence[int]) -> None:
        """Take events that say what the last one said, but for their text; none told a running total."""
        self.times_ns += times_ns
        self.kinds += self.kinds[-1:] * len(times_ns)
        self.tokens += self.tokens[-1:] * len(times_ns)
        self.reads += reads

    def token_events(self, limited_reads: Collection[int]) -> TokenEvents:
        """Token events with their counts; running totals are used for single-choice streams."""
        is_counted = len(self.choices) <= 1 and 0 in self._totals
        return TokenEvents(
            self.times_ns,
            self.kinds,
            self._counted() if is_counted else self.tokens,
            self.reads,
            list(map(limited_reads.__contains__, self.reads)) if limited_reads else (),
        )

    def _counted(self) -> list[int | None]:
        counted = list(self.tokens)
        before = 0
        for index, tokens in enumerate(self.tokens):
            total = self._totals.get(index)
            if total is None:
                break
            if tokens is None and total > before and index not in self._crowded:
                counted[index] = total - before
            before = total
        return counted


def _shares_choice(parts: Sequence[TokenPart], part: TokenPart) -> bool:
    return sum(other.choice == part.choice for other in parts) > 1


def _merged(earlier: Usage, later: Usage) -> Usage:
    """The last value seen wins; a later None erases nothing; counts are never added."""
    if earlier.cached_input_tokens is earlier.reasoning_tokens is None and (
        later.input_tokens is not None and later.output_tokens is not None
    ):
        return later  # the usual running count says all that the one before said

    def last(a: int | None, b: int | None) -> int | None:
        return a if b is None else b

    return Usage(
        input_tokens=last(earlier.input_tokens, later.input_tokens),
        cached_input_tokens=last(earlier.cached_input_tokens, later.cached_input_tokens),
        output_tokens=last(earlier.output_tokens, later.output_tokens),
        reasoning_tokens=last(earlier.reasoning_tokens, later.reasoning_tokens),
    )
